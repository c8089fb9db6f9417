// A program that opens the device and then ends badly, in the way its argument says.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr int kHandled = 7;

void write_to(void* address) { std::memset(address, 1, 1); }

void* beyond_the_file() {
  FILE* file = std::tmpfile();
  return mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
}

[[noreturn]] void handled(int) { _exit(kHandled); }

int end_badly(std::string_view how, ibv_context* context) {
  if (how == "write nowhere") write_to(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (how == "write beyond the file") write_to(beyond_the_file());
  if (how == "null to verbs") return ibv_query_device(context, nullptr);
  if (how == "be sent SIGSEGV") raise(SIGSEGV);
  if (how == "ignore a sent SIGSEGV") {
    std::signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    return 0;
  }
  if (how == "handle it") {
    std::signal(SIGSEGV, handled);
    write_to(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  if (how == "abort") std::abort();
  return 1;
}

}  // namespace

int main(int, char** arguments) {
  ibv_device** devices = ibv_get_device_list(nullptr);
  ibv_context* context = devices != nullptr && devices[0] != nullptr ? ibv_open_device(devices[0]) : nullptr;
  return context == nullptr ? 2 : end_badly(arguments[1], context);
}
