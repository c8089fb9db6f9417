/* What the MPI programs of the tests have in common. Each ends with status 0 and one line of rank 0 if all that every
   rank received was right. */
#pragma once

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static long long errors = 0;

/* A number that tells its place: who wrote it, in which round, where. */
static inline unsigned stamp(int rank, int round, size_t index) {
  unsigned x = (unsigned)rank * 2654435761u ^ (unsigned)round * 2246822519u ^ (unsigned)index * 3266489917u;
  return x ^ x >> 15;
}

static inline void check_equal(const char* what, unsigned long long got, unsigned long long wanted) {
  if (got == wanted) return;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (errors++ < 5) fprintf(stderr, "rank %d: %s: got %llu, wanted %llu\n", rank, what, got, wanted);
}

/* What the RDMA device of this process has sent: no packets mean that MPI went another way. */
static inline long long packets_sent(void) {
  const char* device = getenv("ROCI_NAME");
  char path[256];
  long long packets = 0;
  snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/counters/port_xmit_packets", device ? device : "roci0");
  FILE* file = fopen(path, "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%lld", &packets) != 1) packets = 0;
  fclose(file);
  return packets;
}

static inline void* allocate(size_t bytes) {
  void* memory = calloc(1, bytes);
  if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memory;
}

/* How often the program is to do what it does: its first argument, or once. */
static inline int begin(int argc, char** argv, int* rank, int* ranks) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, ranks);
  return argc > 1 ? atoi(argv[1]) : 1;
}

static inline int finish(const char* name) {
  int rank, ranks;
  long long all_errors = 0, least_packets = 0, packets = packets_sent();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Allreduce(&errors, &all_errors, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&packets, &least_packets, 1, MPI_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%s: %d ranks, %lld errors, at least %lld packets from each\n", name, ranks, all_errors, least_packets);
  MPI_Finalize();
  return all_errors == 0 ? 0 : 1;
}
