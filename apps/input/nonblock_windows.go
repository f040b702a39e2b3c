package input

// nonblock needs Unix: no path here is that of a pipe.
const nonblock = 0
