/* Windows: put and get between fences, sums by many at once, and counters that all ranks race for under locks. */
#include "tests/clients/mpi/check.h"

enum { kWords = 20000, kIncrements = 200 };

static void put_and_get(int rank, int ranks, int round, unsigned* window_words, MPI_Win window, unsigned* words) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (size_t i = 0; i < kWords; ++i) words[i] = stamp(rank, round, i);
  MPI_Win_fence(0, window);
  MPI_Put(words, kWords, MPI_UNSIGNED, right, 0, kWords, MPI_UNSIGNED, window);
  MPI_Win_fence(0, window);
  for (size_t i = 0; i < kWords; ++i) check_equal("word put", window_words[i], stamp(left, round, i));
  MPI_Get(words, kWords, MPI_UNSIGNED, left, 0, kWords, MPI_UNSIGNED, window);
  MPI_Win_fence(0, window);
  const int far_left = (left + ranks - 1) % ranks;
  for (size_t i = 0; i < kWords; ++i) check_equal("word got", words[i], stamp(far_left, round, i));
}

/* Every rank adds to every other's window. */
static void accumulate(int ranks, unsigned* window_words, MPI_Win window, unsigned* words) {
  for (size_t i = 0; i < kWords; ++i) window_words[i] = 0;
  for (size_t i = 0; i < kWords; ++i) words[i] = (unsigned)i + 1;
  MPI_Win_fence(0, window);
  for (int to = 0; to < ranks; ++to)
    MPI_Accumulate(words, kWords, MPI_UNSIGNED, to, 0, kWords, MPI_UNSIGNED, MPI_SUM, window);
  MPI_Win_fence(0, window);
  for (size_t i = 0; i < kWords; ++i) check_equal("sum", window_words[i], (unsigned)ranks * ((unsigned)i + 1));
}

/* Numbers drawn from rank 0: no two ranks get one twice, so in each rank they grow, and none is left out. */
static void race(int rank, int ranks) {
  unsigned long long* counter;
  MPI_Win window;
  MPI_Win_allocate(2 * sizeof *counter, sizeof *counter, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &window);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
  counter[0] = counter[1] = 0;
  MPI_Win_unlock(rank, window);
  MPI_Barrier(MPI_COMM_WORLD);
  const unsigned long long one = 1;
  unsigned long long drawn = 0, last = 0, sum = 0;
  MPI_Win_lock_all(0, window);
  for (int i = 0; i < kIncrements; ++i) {
    MPI_Fetch_and_op(&one, &drawn, MPI_UNSIGNED_LONG_LONG, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
    if (i > 0) check_equal("grows", drawn > last, 1);
    last = drawn;
    sum += drawn;
  }
  MPI_Win_unlock_all(window);
  unsigned long long all = 0, count = (unsigned long long)kIncrements * (unsigned long long)ranks;
  MPI_Allreduce(&sum, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  check_equal("sum of what was drawn", all, count * (count - 1) / 2);

  for (int i = 0; i < kIncrements; ++i) {
    unsigned long long seen = 0, found = 0;
    do {
      seen = found;
      const unsigned long long next = seen + 1;
      MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
      MPI_Compare_and_swap(&next, &seen, &found, MPI_UNSIGNED_LONG_LONG, 0, 1, window);
      MPI_Win_unlock(0, window);
    } while (found != seen);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  unsigned long long swapped = 0;
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  MPI_Get(&swapped, 1, MPI_UNSIGNED_LONG_LONG, 0, 1, 1, MPI_UNSIGNED_LONG_LONG, window);
  MPI_Win_unlock(0, window);
  check_equal("swapped", swapped, count);
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  int rank, ranks;
  const int repeats = begin(argc, argv, &rank, &ranks);
  unsigned* window_words = allocate(kWords * sizeof *window_words);
  unsigned* words = allocate(kWords * sizeof *words);
  MPI_Win window;
  MPI_Win_create(window_words, kWords * sizeof *window_words, sizeof *window_words, MPI_INFO_NULL, MPI_COMM_WORLD,
                 &window);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    put_and_get(rank, ranks, repeat, window_words, window, words);
    accumulate(ranks, window_words, window, words);
  }
  MPI_Win_free(&window);
  race(rank, ranks);
  free(window_words);
  free(words);
  return finish("one-sided");
}
