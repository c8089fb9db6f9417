#include "drivers/cable/shared_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace roci::cable {
namespace {

constexpr std::size_t kHeadBytes = kRingsOffset;

struct flock lock_record(short type, std::uint32_t byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

}  // namespace

std::string file_path(const std::string& name) { return "/dev/shm/roci." + std::to_string(getuid()) + "." + name; }

std::vector<std::string> names() {
  const std::string prefix = file_path("");
  const std::size_t folder_bytes = prefix.find_last_of('/') + 1;
  const std::string start = prefix.substr(folder_bytes);
  std::vector<std::string> found;
  DIR* directory = opendir(prefix.substr(0, folder_bytes).c_str());
  if (directory == nullptr) return found;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name.compare(0, start.size(), start) == 0) found.push_back(name.substr(start.size()));
  }
  closedir(directory);
  std::sort(found.begin(), found.end());
  return found;
}

SharedFile::~SharedFile() { close(); }

void SharedFile::close() {
  if (base_ != nullptr) munmap(base_, kHeadBytes);
  if (fd_ >= 0) ::close(fd_);
  base_ = nullptr;
  fd_ = -1;
}

bool SharedFile::set_lock(short type, std::uint32_t byte, bool wait) {
  struct flock lock = lock_record(type, byte);
  int result = 0;
  do {
    result = fcntl(fd_, wait ? F_SETLKW : F_SETLK, &lock);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

void SharedFile::lock_join() { set_lock(F_WRLCK, kJoinLockByte, true); }
void SharedFile::unlock_join() { set_lock(F_UNLCK, kJoinLockByte, false); }

bool SharedFile::lock_end(std::uint32_t end) {
  if (!set_lock(F_WRLCK, end, false)) return false;
  own_ends_.fetch_or(std::uint64_t{1} << end, std::memory_order_relaxed);
  return true;
}

void SharedFile::unlock_end(std::uint32_t end) {
  own_ends_.fetch_and(~(std::uint64_t{1} << end), std::memory_order_relaxed);
  set_lock(F_UNLCK, end, false);
}

bool SharedFile::end_is_alive(std::uint32_t end) const {
  if ((own_ends_.load(std::memory_order_relaxed) >> end & 1) != 0) return true;
  struct flock lock = lock_record(F_WRLCK, end);
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool SharedFile::any_end_is_alive() const {
  if (own_ends_.load(std::memory_order_relaxed) != 0) return true;
  struct flock lock = lock_record(F_WRLCK, 0);
  lock.l_len = kMaxEnds;
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void SharedFile::unlink() { ::unlink(path_.c_str()); }

bool SharedFile::map_head(bool writable) {
  void* memory = mmap(nullptr, kHeadBytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(memory);
  return true;
}

/// With a limit on the size of files (RLIMIT_FSIZE) below the cable's, which takes no disk, the kernel would end the
/// process: EFBIG is enough.
bool SharedFile::grow() {
  sigset_t too_large;
  sigset_t before;
  sigemptyset(&too_large);
  sigaddset(&too_large, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &too_large, &before);
  const bool done = ftruncate(fd_, kFileBytes) == 0;
  const int reason = errno;
  constexpr timespec kNow{};
  if (!done && reason == EFBIG) sigtimedwait(&too_large, nullptr, &kNow);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return done;
}

bool SharedFile::initialise() {
  if (!grow()) return false;
  // Reserved, so that a full /dev/shm is an error here and not a SIGBUS later.
  if (fallocate(fd_, 0, 0, kHeadBytes) != 0) return false;
  if (!map_head(true)) return false;
  FileHeader& head = header();
  head.magic = kMagic;
  head.layout_version = kLayoutVersion;
  head.slot_bytes = kSlotBytes;
  head.slots = kSlots;
  head.next_epoch = 1;
  return true;
}

/// Removes the files of cables all of whose ends were killed. Nobody's locks are disturbed: they are other files than
/// the one that this process is about to open.
void SharedFile::remove_abandoned() const {
  for (const std::string& name : names()) {
    const std::string path = file_path(name);
    if (path == path_) continue;
    SharedFile other;
    other.path_ = path;
    other.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat status {};
    // Without the join lock the file may be one that is just being made.
    if (other.fd_ < 0 || !other.set_lock(F_WRLCK, kJoinLockByte, false)) continue;
    if (fstat(other.fd_, &status) == 0 && status.st_uid == getuid() && status.st_nlink != 0 && status.st_size != 0 &&
        !other.any_end_is_alive())
      other.unlink();
  }
}

bool SharedFile::open_and_lock(const std::string& name, std::string* error) {
  path_ = file_path(name);
  remove_abandoned();
  for (;;) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat status {};
    if (fd_ < 0 || fstat(fd_, &status) != 0) {
      *error = path_ + ": " + std::strerror(errno);
      return false;
    }
    if (status.st_uid != getuid()) {
      *error = path_ + ": belongs to another user";
      errno = EACCES;
      return false;
    }
    lock_join();
    fstat(fd_, &status);
    const bool gone = status.st_nlink == 0;
    const bool stale = !gone && status.st_size != 0 && !any_end_is_alive();
    if (stale) unlink();
    if (gone || stale) {
      close();
      continue;
    }
    if (status.st_size == 0) {
      if (initialise()) return true;
      const int reason = errno;
      *error = path_ + ": " + std::strerror(reason);
      if (reason == EFBIG)
        *error += "; the limit on the size of files (ulimit -f) has to be above 5 GB, of which few are used";
      unlink();
      errno = reason;
      return false;
    }
    const bool mapped = status.st_size == static_cast<off_t>(kFileBytes) && map_head(true);
    if (mapped && header().magic == kMagic && header().layout_version == kLayoutVersion) return true;
    *error = path_ + ": in use by another version of this program";
    errno = EPROTO;
    return false;
  }
}

bool SharedFile::open_for_reading(const std::string& path) {
  path_ = path;
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat status {};
  if (fd_ < 0 || fstat(fd_, &status) != 0 || status.st_size != static_cast<off_t>(kFileBytes)) return false;
  return map_head(false) && header().magic == kMagic && header().layout_version == kLayoutVersion;
}

std::byte* SharedFile::map_ring(std::uint32_t producer, std::uint32_t consumer, bool reserve) {
  const auto offset = static_cast<off_t>(ring_offset(producer, consumer));
  if (reserve && fallocate(fd_, 0, offset, kRingBytes) != 0) return nullptr;
  void* memory = mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, offset);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

void SharedFile::unmap_ring(std::byte* ring) { munmap(ring, kRingBytes); }

void SharedFile::discard_ring(std::uint32_t producer, std::uint32_t consumer) {
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(ring_offset(producer, consumer)),
            kRingBytes);
}

}  // namespace roci::cable
