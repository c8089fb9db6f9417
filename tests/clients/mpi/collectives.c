/* Allreduce and alltoall, the latter also with lengths that differ, over messages of many sizes. */
#include "tests/clients/mpi/check.h"

static const size_t kWords[] = {1, 7, 512, 4096, 50000};
enum { kSizes = sizeof kWords / sizeof *kWords };

static void allreduce(int rank, int ranks, int round, unsigned* out, unsigned* in, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = stamp(rank, round, i);
  MPI_Allreduce(out, in, (int)count, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD);
  for (size_t i = 0; i < count; ++i) {
    unsigned sum = 0;
    for (int from = 0; from < ranks; ++from) sum += stamp(from, round, i);
    check_equal("sum", in[i], sum);
  }
}

/* The block from one rank to another is stamped by both. */
static void alltoall(int rank, int ranks, int round, unsigned* out, unsigned* in, size_t count) {
  for (int to = 0; to < ranks; ++to)
    for (size_t i = 0; i < count; ++i) out[(size_t)to * count + i] = stamp(rank * ranks + to, round, i);
  MPI_Alltoall(out, (int)count, MPI_UNSIGNED, in, (int)count, MPI_UNSIGNED, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from)
    for (size_t i = 0; i < count; ++i)
      check_equal("word of alltoall", in[(size_t)from * count + i], stamp(from * ranks + rank, round, i));
}

/* Rank a has for rank b a block of count * (a + b) / (2 * ranks) words: none from rank 0 to itself. */
static void alltoallv(int rank, int ranks, int round, unsigned* out, unsigned* in, size_t count) {
  int* lengths = allocate((size_t)ranks * sizeof *lengths);
  int* places = allocate((size_t)ranks * sizeof *places);
  int place = 0;
  for (int to = 0; to < ranks; ++to) {
    lengths[to] = (int)(count * (size_t)(rank + to) / (size_t)(2 * ranks));
    places[to] = place;
    for (int i = 0; i < lengths[to]; ++i) out[place + i] = stamp(rank * ranks + to, round, (size_t)i);
    place += lengths[to];
  }
  MPI_Alltoallv(out, lengths, places, MPI_UNSIGNED, in, lengths, places, MPI_UNSIGNED, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from)
    for (int i = 0; i < lengths[from]; ++i)
      check_equal("word of alltoallv", in[places[from] + i], stamp(from * ranks + rank, round, (size_t)i));
  free(lengths);
  free(places);
}

int main(int argc, char** argv) {
  int rank, ranks;
  const int repeats = begin(argc, argv, &rank, &ranks);
  unsigned* out = allocate(kWords[kSizes - 1] * (size_t)ranks * sizeof *out);
  unsigned* in = allocate(kWords[kSizes - 1] * (size_t)ranks * sizeof *in);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (int size = 0; size < kSizes; ++size) {
      allreduce(rank, ranks, size, out, in, kWords[size]);
      alltoall(rank, ranks, kSizes + size, out, in, kWords[size]);
      alltoallv(rank, ranks, 2 * kSizes + size, out, in, kWords[size]);
    }
  }
  free(out);
  free(in);
  return finish("collectives");
}
