// The loops of bench/README.md on Open MPI, called as
//
//   loop OP BYTES WARMUP ITERATIONS OUT
//
// OP is pingpong, broadcast, barrier or start. Rank r writes OUT.r: one line for
// each iteration after the warm-up, the nanoseconds at which its operation began
// and ended, on the clock that all processes of a host share.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size, bytes;
static unsigned char *buffer;

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "loop: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// Both ends of the buffer carry the iteration, so that data which never arrived
// does not pass for fast.
static void mark(int i) { buffer[0] = buffer[bytes - 1] = (unsigned char)i; }

static void check(int i) {
  if (buffer[0] != (unsigned char)i || buffer[bytes - 1] != (unsigned char)i) {
    fail("wrong data");
  }
}

static void pingpong(void) {
  if (rank == 0) {
    MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

static void broadcast(void) { MPI_Bcast(buffer, bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void loop(void (*operation)(void), int warmup, int iterations, const char *out) {
  long long *spans = malloc(2 * sizeof *spans * (size_t)iterations);
  buffer = calloc(1, (size_t)bytes);
  if (spans == NULL || buffer == NULL) {
    fail("no memory");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = -warmup; i < iterations; i++) {
    if (rank == 0) {
      mark(i);
    }
    long long begin = now();
    operation();
    long long end = now();
    if (operation != barrier) {
      check(i);
    }
    if (i >= 0) {
      spans[2 * i] = begin;
      spans[2 * i + 1] = end;
    }
    if (operation == broadcast) {
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }

  char name[4096];
  snprintf(name, sizeof name, "%s.%d", out, rank);
  FILE *file = fopen(name, "w");
  if (file == NULL) {
    fail("cannot write the result");
  }
  for (int i = 0; i < iterations; i++) {
    fprintf(file, "%lld %lld\n", spans[2 * i], spans[2 * i + 1]);
  }
  if (fclose(file) != 0) {
    fail("cannot write the result");
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 6) {
    fail("want OP BYTES WARMUP ITERATIONS OUT");
  }
  const char *op = argv[1];
  bytes = atoi(argv[2]);
  int warmup = atoi(argv[3]), iterations = atoi(argv[4]);
  if (bytes < 1 || warmup < 0 || iterations < 1) {
    fail("bad BYTES, WARMUP or ITERATIONS");
  }
  if (strcmp(op, "start") == 0) {
    barrier();
  } else if (strcmp(op, "pingpong") == 0 && size == 2) {
    loop(pingpong, warmup, iterations, argv[5]);
  } else if (strcmp(op, "broadcast") == 0) {
    loop(broadcast, warmup, iterations, argv[5]);
  } else if (strcmp(op, "barrier") == 0) {
    loop(barrier, warmup, iterations, argv[5]);
  } else {
    fail("unknown OP, or a ping-pong not of 2");
  }
  MPI_Finalize();
  return 0;
}
