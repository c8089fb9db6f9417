// Runs the fuzz target on inputs that are known: one TAP line for each golden capture, one for random conversations and
// one for the corpus. An abort ends the program, and the last line that it leaves says which input it was.
//
// fuzz-corpus CORPUS                 the regression run
// fuzz-corpus --write-seeds FOLDER   writes what libFuzzer is to start from: the captures and some conversations
// fuzz-corpus --run FILE...          runs these inputs
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace roci::fuzz {
namespace {

/// Conversations that libFuzzer starts from, and that the regression run holds.
constexpr std::uint64_t kRandomSeeds = 200;
constexpr std::uint64_t kRandomRuns = 5000;

using Bytes = std::vector<std::uint8_t>;

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

void run_input(const std::string& name, const Bytes& bytes) {
  // Stays as the last line if the input ends the program.
  std::fprintf(stderr, "# %s\n", name.c_str());
  // A copy of its own: what is read past the end is found.
  const Bytes exact(bytes);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void run_seed(const Seed& seed) { run_input(seed.name, seed.bytes); }

void write_seed(const std::filesystem::path& folder, const Seed& seed) {
  std::ofstream file(folder / seed.name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(seed.bytes.data()), static_cast<std::streamsize>(seed.bytes.size()));
  if (!file) throw std::runtime_error((folder / seed.name).string() + ": cannot be written");
}

int write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (std::uint64_t number = 1; number <= kRandomSeeds; ++number) write_seed(folder, random_seed(number));
  for (const auto& path : test::golden_captures())
    for (const Seed& seed : seeds_of(test::read_capture(path))) write_seed(folder, seed);
  return 0;
}

void report(std::size_t number, const std::string& name, std::size_t inputs) {
  std::printf("%s %zu - %s, %zu inputs\n", inputs > 0 ? "ok" : "not ok", number, name.c_str(), inputs);
}

int run_all(const std::filesystem::path& corpus) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto captures = test::golden_captures();
  std::printf("1..%zu\n", captures.size() + 2);
  std::size_t number = 0;
  for (const auto& path : captures) {
    const std::vector<Seed> seeds = seeds_of(test::read_capture(path));
    for (const Seed& seed : seeds) run_seed(seed);
    report(++number, path.filename(), seeds.size());
  }
  for (std::uint64_t seed = 1; seed <= kRandomRuns; ++seed) run_seed(random_seed(seed));
  report(++number, "random conversations", kRandomRuns);
  std::size_t inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    run_input(entry.path().filename(), read_file(entry.path()));
    ++inputs;
  }
  report(++number, "corpus", inputs);
  return 0;
}

int run(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--write-seeds") == 0) return write_seeds(argv[2]);
  if (argc > 2 && std::strcmp(argv[1], "--run") == 0) {
    for (int i = 2; i < argc; ++i) run_input(argv[i], read_file(argv[i]));
    return 0;
  }
  if (argc == 2 && argv[1][0] != '-') return run_all(argv[1]);
  std::fprintf(stderr, "usage: fuzz-corpus CORPUS | --write-seeds FOLDER | --run FILE...\n");
  return 2;
}

}  // namespace
}  // namespace roci::fuzz

int main(int argc, char** argv) {
  try {
    return roci::fuzz::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz-corpus: %s\n", error.what());
    return 1;
  }
}
