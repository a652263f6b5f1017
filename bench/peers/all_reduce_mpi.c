/* MPI's all-reduce: MPI_Allreduce, or MPI_Iallreduce and MPI_Wait. The protocol is that of `ripieno bench all-reduce` and
   of nccl-tests: a barrier, then a timed all-reduce, the mean over ranks. Rank 0 prints JSON.

     mpicc -O2 -o all_reduce_mpi bench/peers/all_reduce_mpi.c
     mpirun -n 2 ./all_reduce_mpi blocking|nonblocking WARMUP BYTES ITERATIONS [BYTES ITERATIONS ..] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float element(int rank, long i) { return (rank * 7L + i) % 4 == 0; }

static double mean_over_ranks(double value, int ranks) {
  double sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum / ranks;
}

static void all_reduce(float* buffer, long count, int blocks) {
  MPI_Request request;
  if (blocks) {
    MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else {
    MPI_Iallreduce(MPI_IN_PLACE, buffer, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static void measure(long bytes, long iterations, long warmup, int blocks, int rank, int ranks) {
  const long count = bytes / 4;
  float* buffer = malloc(count * sizeof *buffer + 1);
  double sum = 0;
  if (rank == 0) printf("{\"bytes\": %ld, \"ranks\": %d, \"times_us\": [", bytes, ranks);
  for (long i = -warmup; i < iterations; ++i) {
    for (long j = 0; j < count; ++j) buffer[j] = element(rank, j);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    all_reduce(buffer, count, blocks);
    const double took = mean_over_ranks((MPI_Wtime() - start) * 1e6, ranks);
    if (i < 0) continue;
    sum += took;
    if (rank == 0) printf("%s%.3f", i > 0 ? ", " : "", took);
  }
  double wrong = 0;
  for (long j = 0; j < count; ++j) {
    float expected = 0;
    for (int other = 0; other < ranks; ++other) expected += element(other, j);
    wrong += buffer[j] != expected;
  }
  wrong = mean_over_ranks(wrong, ranks) * ranks;
  if (rank == 0) printf("], \"time_us\": %.3f, \"wrong\": %.0f}", sum / iterations, wrong);
  free(buffer);
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int blocks = argc > 1 && strcmp(argv[1], "blocking") == 0;
  if (argc < 5 || argc % 2 == 0 || (!blocks && strcmp(argv[1], "nonblocking") != 0)) {
    if (rank == 0) fprintf(stderr, "usage: all_reduce_mpi blocking|nonblocking WARMUP BYTES ITERATIONS [BYTES ITERATIONS ..]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (rank == 0) printf("[");
  for (int i = 3; i < argc; i += 2) {
    if (rank == 0 && i > 3) printf(", ");
    measure(atol(argv[i]), atol(argv[i + 1]), atol(argv[2]), blocks, rank, ranks);
  }
  if (rank == 0) printf("]\n");
  MPI_Finalize();
  return 0;
}
