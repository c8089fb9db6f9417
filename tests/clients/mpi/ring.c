/* Messages of many sizes once around a ring, each rank adding to what it passes on; then all at once to the right. */
#include "tests/clients/mpi/check.h"

static const size_t kWords[] = {1, 2, 15, 16, 1000, 2048, 4097, 65536, 300001};
enum { kSizes = sizeof kWords / sizeof *kWords };

static void around(int rank, int ranks, int round, unsigned* words, size_t count) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  if (rank == 0) {
    for (size_t i = 0; i < count; ++i) words[i] = stamp(0, round, i);
    MPI_Send(words, (int)count, MPI_UNSIGNED, right, round, MPI_COMM_WORLD);
  }
  MPI_Status status;
  MPI_Recv(words, (int)count, MPI_UNSIGNED, left, round, MPI_COMM_WORLD, &status);
  int received;
  MPI_Get_count(&status, MPI_UNSIGNED, &received);
  check_equal("words around", (unsigned)received, count);
  const unsigned added = rank == 0 ? (unsigned)ranks - 1 : (unsigned)rank - 1;
  for (size_t i = 0; i < count; ++i) check_equal("word around", words[i], stamp(0, round, i) + added);
  if (rank == 0) return;
  for (size_t i = 0; i < count; ++i) ++words[i];
  MPI_Send(words, (int)count, MPI_UNSIGNED, right, round, MPI_COMM_WORLD);
}

static void all_to_the_right(int rank, int ranks, int round, unsigned* out, unsigned* in, size_t count) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (size_t i = 0; i < count; ++i) out[i] = stamp(rank, round, i);
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Irecv(in, (int)count, MPI_UNSIGNED, left, round, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, (int)count, MPI_UNSIGNED, right, round, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, statuses);
  for (size_t i = 0; i < count; ++i) check_equal("word from the left", in[i], stamp(left, round, i));
}

int main(int argc, char** argv) {
  int rank, ranks;
  const int repeats = begin(argc, argv, &rank, &ranks);
  unsigned* out = allocate(kWords[kSizes - 1] * sizeof *out);
  unsigned* in = allocate(kWords[kSizes - 1] * sizeof *in);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (int size = 0; size < kSizes; ++size) {
      around(rank, ranks, size, in, kWords[size]);
      all_to_the_right(rank, ranks, kSizes + size, out, in, kWords[size]);
    }
  }
  free(out);
  free(in);
  return finish("ring");
}
