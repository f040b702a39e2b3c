package node

// shutdown needs Unix.
func shutdown(int, bool) {}
