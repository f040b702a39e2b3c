// Package segment lets two processes of a host exchange bytes in memory that both have mapped.
//
// A Pair is a ring in each direction between two processes. One process writes to a ring and the other reads from it;
// neither ever waits for the other. Each process has an Inbox, in which others mark that there is something to look
// at, so that it looks at one word and not at every ring, and in which it says that it sleeps, so that others know when
// they have to wake it.
//
// No process holds a lock, so one that dies between any two stores harms nobody:
//
//   - what it has copied into a ring and not published does not exist;
//   - what it has published and not marked is found when its peers notice its death, and read the ring once more.
//
// No process trusts what another one has written. Positions that cannot be right are ErrDamaged, which ends the connection; the
// bytes are those of a stream, which whoever reads it checks as it checks those of a socket. The memory is that of a
// sealed file without a name: it cannot be cut short, and is gone with the last process that has it.
package segment
