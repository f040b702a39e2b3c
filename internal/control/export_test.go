package control

// Break breaks a client's connection, as a network might.
func (c *Client) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.Close()
}
