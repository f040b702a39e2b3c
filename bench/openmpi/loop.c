//go:build ignore

// The loops of bench/README.md on Open MPI, called as
//
//   loop OP BYTES WARMUP ITERATIONS OUT [OP BYTES WARMUP ITERATIONS OUT ...]
//
// OP is one of the table below, or start. Rank r writes OUT.r: one line for each
// iteration after the warm-up, the nanoseconds at which its operation began and
// ended, on the clock that all processes of a host share.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size, bytes;
static unsigned char *out, *in; // what is sent and what is received

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "loop: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void pingpong(void) {
  if (rank == 0) {
    MPI_Send(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

static void broadcast(void) { MPI_Bcast(in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void reduce(void) {
  MPI_Reduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void allreduce(void) {
  MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void scan(void) {
  MPI_Scan(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void scatter(void) {
  MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void gather(void) {
  MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void allgather(void) {
  MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(void) {
  MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

// How many blocks a task sends or receives.
enum count { NONE, ONE, EACH, ONE_AT_ROOT, EACH_AT_ROOT };

static int blocks(enum count c) {
  switch (c) {
  case ONE:
    return 1;
  case EACH:
    return size;
  case ONE_AT_ROOT:
    return rank == 0;
  case EACH_AT_ROOT:
    return rank == 0 ? size : 0;
  default:
    return 0;
  }
}

static const struct operation {
  const char *name;
  void (*call)(void);
  enum count sends, receives;
  int numbers;   // the blocks are numbers, which are added
  int addressed; // each task gets a block of its own
  int in_place;  // what is sent is where it is received
  int apart;     // a barrier that is not timed follows
} operations[] = {
    {"pingpong", pingpong, ONE_AT_ROOT, ONE, 0, 0, 1, 0},
    {"broadcast", broadcast, ONE_AT_ROOT, ONE, 0, 0, 1, 1},
    {"reduce", reduce, ONE, ONE_AT_ROOT, 1, 0, 0, 1},
    {"allreduce", allreduce, ONE, ONE, 1, 0, 0, 1},
    {"scan", scan, ONE, ONE, 1, 0, 0, 1},
    {"scatter", scatter, EACH_AT_ROOT, ONE, 0, 1, 0, 1},
    {"gather", gather, ONE, EACH_AT_ROOT, 0, 0, 0, 1},
    {"allgather", allgather, ONE, EACH, 0, 0, 0, 1},
    {"alltoall", alltoall, EACH, EACH, 0, 1, 0, 1},
    {"barrier", barrier, NONE, NONE, 0, 0, 0, 0},
};

static const struct operation *find(const char *name) {
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
    if (strcmp(operations[i].name, name) == 0) {
      return &operations[i];
    }
  }
  fail("unknown OP");
  return NULL;
}

// Both ends of a block carry the iteration, who sends it and whom it is for, so that
// data which never arrived does not pass for fast.
static unsigned char mark(int i, int from, int to) {
  return (unsigned char)(i + 31 * from + 7 * to);
}

static void mark_out(const struct operation *op, int i) {
  unsigned char *base = op->in_place ? in : out;
  if (op->numbers) {
    double *numbers = (double *)base;
    numbers[0] = numbers[bytes / 8 - 1] = i + rank;
    return;
  }
  for (int k = 0; k < blocks(op->sends); k++) {
    unsigned char *block = base + (size_t)k * (size_t)bytes;
    block[0] = block[bytes - 1] = mark(i, rank, op->addressed ? k : 0);
  }
}

static void check_in(const struct operation *op, int i) {
  if (op->numbers && blocks(op->receives) > 0) {
    const double *numbers = (const double *)in;
    double terms = op->call == scan ? rank + 1 : size;
    double sum = terms * i + terms * (terms - 1) / 2;
    if (numbers[0] != sum || numbers[bytes / 8 - 1] != sum) {
      fail("wrong sum");
    }
    return;
  }
  for (int k = 0; k < blocks(op->receives); k++) {
    const unsigned char *block = in + (size_t)k * (size_t)bytes;
    unsigned char want = mark(i, op->receives == ONE ? 0 : k, op->addressed ? rank : 0);
    if (block[0] != want || block[bytes - 1] != want) {
      fail("wrong data");
    }
  }
}

// Memory that exists: what was never written to may all be one page of zeros, which
// is cheap to send.
static unsigned char *buffer(const struct operation *op, int count) {
  size_t all = (size_t)count * (size_t)bytes;
  unsigned char *memory = malloc(all > 0 ? all : 1);
  if (memory == NULL) {
    fail("no memory");
  }
  memset(memory, 1, all);
  for (size_t i = 0; op->numbers && i < all / 8; i++) {
    ((double *)memory)[i] = 1;
  }
  return memory;
}

static void write_spans(const long long *spans, int iterations, const char *file_name) {
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", file_name, rank);
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

static void loop(const struct operation *op, int warmup, int iterations, const char *file_name) {
  long long *spans = malloc(2 * sizeof *spans * (size_t)iterations);
  if (spans == NULL) {
    fail("no memory");
  }
  in = buffer(op, blocks(op->receives));
  out = buffer(op, op->in_place ? 0 : blocks(op->sends));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = -warmup; i < iterations; i++) {
    mark_out(op, i);
    long long begin = now();
    op->call();
    long long end = now();
    check_in(op, i);
    if (i >= 0) {
      spans[2 * i] = begin;
      spans[2 * i + 1] = end;
    }
    if (op->apart) {
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  write_spans(spans, iterations, file_name);
  free(in);
  free(out);
  free(spans);
}

static void job(char **words) {
  bytes = atoi(words[1]);
  int warmup = atoi(words[2]), iterations = atoi(words[3]);
  if (bytes < 1 || warmup < 0 || iterations < 1) {
    fail("bad BYTES, WARMUP or ITERATIONS");
  }
  if (strcmp(words[0], "start") == 0) {
    barrier();
    return;
  }
  const struct operation *op = find(words[0]);
  if (op->call == pingpong && size != 2) {
    fail("a ping-pong not of 2");
  }
  if (op->numbers && bytes % 8 != 0) {
    fail("BYTES of numbers that are no multiple of 8");
  }
  loop(op, warmup, iterations, words[4]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 6 || (argc - 1) % 5 != 0) {
    fail("want OP BYTES WARMUP ITERATIONS OUT, once or several times");
  }
  for (int i = 1; i < argc; i += 5) {
    job(argv + i);
  }
  MPI_Finalize();
  return 0;
}
