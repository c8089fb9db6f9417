#include "drivers/live/stack_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

namespace roci {

struct StackFile::Record {
  static constexpr std::uint64_t kMagic = 0x726f'6369'7374'6b32;
  static constexpr std::size_t kMaxAddresses = 16;

  std::uint64_t magic;  ///< written last
  std::int32_t pid;
  std::uint32_t address_count;
  std::array<IpAddress, kMaxAddresses> addresses;
  std::array<char, 128> link;
  std::array<char, 64> device_name;
  std::array<char, 256> driver;
  std::array<char, 32> program;
  alignas(64) Counters counters;
  alignas(64) DpdkCounters port_counters;
};

namespace {

constexpr const char* kFolder = "/dev/shm";

std::string name_prefix() { return "roci-stack." + std::to_string(getuid()) + "."; }

struct flock lock_record() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return lock;
}

std::vector<std::string> paths() {
  std::vector<std::string> found;
  const std::string prefix = name_prefix();
  DIR* folder = opendir(kFolder);
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder))
    if (std::string_view(entry->d_name).starts_with(prefix))
      found.push_back(std::string(kFolder) + "/" + entry->d_name);
  closedir(folder);
  std::sort(found.begin(), found.end());
  return found;
}

template <std::size_t kBytes>
void put_text(std::array<char, kBytes>& out, std::string_view text) {
  out = {};
  std::copy_n(text.begin(), std::min(text.size(), kBytes - 1), out.begin());
}

/// Text that another process may be writing: it need not end.
template <std::size_t kBytes>
std::string text_of(const std::array<char, kBytes>& bytes) {
  return std::string(bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0'));
}

void copy_counters(const void* from, std::span<std::uint64_t> to) {
  const auto* words = static_cast<const std::uint64_t*>(from);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = __atomic_load_n(words + i, __ATOMIC_RELAXED);
}

bool is_ours_and_alive(int fd, bool* alive) {
  struct stat status {};
  if (fstat(fd, &status) != 0 || status.st_uid != getuid() || !S_ISREG(status.st_mode)) return false;
  struct flock lock = lock_record();
  *alive = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  return true;
}

/// Files of processes that were killed. One's own is not among them: it is not made yet.
void remove_abandoned() {
  for (const std::string& path : paths()) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    bool alive = true;
    if (is_ours_and_alive(fd, &alive) && !alive) unlink(path.c_str());
    close(fd);
  }
}

}  // namespace

std::unique_ptr<StackFile> StackFile::create(const StackIdentity& identity) {
  remove_abandoned();
  std::unique_ptr<StackFile> made(new StackFile);
  const std::string path = std::string(kFolder) + "/" + name_prefix() + std::to_string(getpid());
  made->fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (made->fd_ < 0) return nullptr;
  made->path_ = path;
  struct flock lock = lock_record();
  if (fcntl(made->fd_, F_SETLK, &lock) != 0 || posix_fallocate(made->fd_, 0, sizeof(Record)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED, made->fd_, 0);
  if (memory == MAP_FAILED) return nullptr;
  made->record_ = new (memory) Record{};
  made->record_->pid = getpid();
  put_text(made->record_->link, identity.link);
  put_text(made->record_->device_name, identity.device_name);
  put_text(made->record_->program, program_invocation_short_name);
  made->set_addresses(identity.addresses);
  __atomic_store_n(&made->record_->magic, Record::kMagic, __ATOMIC_RELEASE);
  return made;
}

StackFile::~StackFile() {
  if (record_ != nullptr) munmap(record_, sizeof(Record));
  if (!path_.empty()) unlink(path_.c_str());
  if (fd_ >= 0) close(fd_);
}

void StackFile::remove() { unlink(path_.c_str()); }

Counters* StackFile::counters() { return &record_->counters; }
DpdkCounters* StackFile::port_counters() { return &record_->port_counters; }

void StackFile::set_driver(const std::string& driver) { put_text(record_->driver, driver); }

void StackFile::set_addresses(const std::vector<IpAddress>& addresses) {
  std::uint32_t count = 0;
  for (const IpAddress& address : addresses)
    if (!address.is_unspecified() && count < Record::kMaxAddresses) record_->addresses[count++] = address;
  record_->address_count = count;
}

struct StackFiles {
  static bool read(const std::string& path, RunningStack* stack) {
    using Record = StackFile::Record;
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    bool alive = false;
    struct stat status {};
    const bool good = is_ours_and_alive(fd, &alive) && alive && fstat(fd, &status) == 0 &&
                      status.st_size >= static_cast<off_t>(sizeof(Record));
    void* memory = good ? mmap(nullptr, sizeof(Record), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (memory == MAP_FAILED) return false;
    const auto* record = static_cast<const Record*>(memory);
    const bool written = __atomic_load_n(&record->magic, __ATOMIC_ACQUIRE) == Record::kMagic;
    if (written) {
      const std::size_t count = std::min<std::size_t>(record->address_count, Record::kMaxAddresses);
      stack->identity = {.link = text_of(record->link),
                         .device_name = text_of(record->device_name),
                         .driver = text_of(record->driver),
                         .addresses = {record->addresses.begin(), record->addresses.begin() + count}};
      stack->pid = record->pid;
      stack->program = text_of(record->program);
      copy_counters(&record->counters, stack->stack_counters);
      copy_counters(&record->counters.rates, words_of(stack->rates));
      copy_counters(&record->port_counters, stack->port_counters);
    }
    munmap(memory, sizeof(Record));
    return written;
  }
};

std::vector<RunningStack> list_stacks() {
  std::vector<RunningStack> stacks;
  for (const std::string& path : paths()) {
    RunningStack stack;
    if (StackFiles::read(path, &stack)) stacks.push_back(std::move(stack));
  }
  return stacks;
}

}  // namespace roci
