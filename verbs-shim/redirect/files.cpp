#include "verbs-shim/redirect/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "drivers/live/device_view.h"
#include "verbs-shim/identity.h"
#include "verbs-shim/redirect/device.h"

namespace roci::redirect {
namespace {

/// What is shown in the place of what the system has there, with all that lies in it.
constexpr std::string_view kShown[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/dev/infiniband",
                                       "/sys/devices/virtual/rocinante"};
constexpr const char* kPlaces[] = {"/dev/shm", "/tmp"};
constexpr const char* kDevice = "sys/devices/virtual/rocinante";

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/// Of the process whose folder it is: a child makes its own.
pid_t owner = 0;
char folder[64];
/// What the rows of the GID table were when they were last written.
DeviceView written;

bool is_shown(std::string_view path) {
  for (const std::string_view shown : kShown)
    if (path.starts_with(shown) && (path.size() == shown.size() || path[shown.size()] == '/')) return true;
  return false;
}

__attribute__((format(printf, 1, 2))) std::string text(const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

/// Files below one folder, by names relative to it, so that none of them is redirected again.
class Folder {
 public:
  explicit Folder(const char* path) : fd_(::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}
  ~Folder() {
    if (fd_ >= 0) close(fd_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  bool is_open() const { return fd_ >= 0; }

  void make(const std::string& path) {
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
      mkdirat(fd_, path.substr(0, slash).c_str(), 0755);
    mkdirat(fd_, path.c_str(), 0755);
  }

  /// Another thread or a child that reads the file sees the old text or the new.
  void put(const std::string& path, const std::string& line) {
    const std::string draft = path + "~";
    const int fd = openat(fd_, draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0) return;
    const std::string whole = line + "\n";
    const bool complete = write(fd, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size());
    close(fd);
    if (complete) renameat(fd_, draft.c_str(), fd_, path.c_str());
  }

  void remove(const std::string& path) { unlinkat(fd_, path.c_str(), 0); }

  void link(const char* target, const std::string& path) { (void)!symlinkat(target, fd_, path.c_str()); }

 private:
  int fd_;
};

void remove_tree(int parent, const char* name) {
  const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  DIR* entries = nullptr;
  if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == getuid()) entries = fdopendir(fd);
  if (entries == nullptr) {
    if (fd >= 0) close(fd);
    return;
  }
  while (const dirent* entry = readdir(entries)) {
    const std::string_view is(entry->d_name);
    if (is == "." || is == "..") continue;
    if (unlinkat(fd, entry->d_name, 0) != 0) remove_tree(fd, entry->d_name);
  }
  closedir(entries);
  unlinkat(parent, name, AT_REMOVEDIR);
}

std::string name_prefix() { return text("roci-view.%u.", getuid()); }

/// Folders of processes that were killed, or ended without a word.
void remove_abandoned_in(const char* place) {
  const std::string prefix = name_prefix();
  DIR* entries = opendir(place);
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    const auto pid = static_cast<pid_t>(std::strtol(entry->d_name + prefix.size(), nullptr, 10));
    const bool is_of_another_before = pid == getpid() && owner != pid;
    if (is_of_another_before || (kill(pid, 0) != 0 && errno == ESRCH)) remove_tree(dirfd(entries), entry->d_name);
  }
  closedir(entries);
}

std::string device_folder() { return text("%s/infiniband/%s", kDevice, device_name().c_str()); }
std::string port_folder() { return device_folder() + "/ports/1"; }

void make_device(Folder& files) {
  const std::string name = device_name();
  const std::string device = device_folder();
  const std::uint64_t guid = shim::guid_of(name);
  const std::string guid_text = text("%04x:%04x:%04x:%04x", unsigned(guid >> 48), unsigned(guid >> 32 & 0xffff),
                                     unsigned(guid >> 16 & 0xffff), unsigned(guid & 0xffff));
  files.make(device);
  files.put(device + "/node_type", "1: CA");
  files.put(device + "/node_guid", guid_text);
  files.put(device + "/sys_image_guid", guid_text);
  files.put(device + "/fw_ver", shim::kFirmware);
  files.put(device + "/node_desc", name);
  files.link("../../../rocinante", device + "/device");
  files.put(std::string(kDevice) + "/vendor", text("0x%04x", shim::kVendorId));
  files.put(std::string(kDevice) + "/device", text("0x%04x", shim::kVendorPartId));
  files.put(std::string(kDevice) + "/numa_node", "-1");
  // Programs that find an interface here go on to ask the kernel for its addresses, by netlink.
  if (kernel_index(interface_name().c_str()) != 0) files.make(std::string(kDevice) + "/net/" + interface_name());

  const std::string node = text("%s/infiniband_verbs/%s", kDevice, shim::kNodeName);
  files.make(node);
  files.put(node + "/ibdev", name);
  files.put(node + "/abi_version", "1");
  files.link("../../../rocinante", node + "/device");
  files.make("sys/class/infiniband");
  files.make("sys/class/infiniband_verbs");
  files.link(("../../devices/virtual/rocinante/infiniband/" + name).c_str(), "sys/class/infiniband/" + name);
  files.link(text("../../devices/virtual/rocinante/infiniband_verbs/%s", shim::kNodeName).c_str(),
             text("sys/class/infiniband_verbs/%s", shim::kNodeName));
  files.put("sys/class/infiniband_verbs/abi_version", "6");
  // Programs look whether there is a character device that they may open.
  files.make("dev/infiniband");
  files.link("/dev/null", text("dev/infiniband/%s", shim::kNodeName));
  files.link("/dev/null", "dev/infiniband/rdma_cm");
}

void make_port(Folder& files) {
  const std::string port = port_folder();
  for (const char* part : {"/gids", "/pkeys", "/gid_attrs/types", "/gid_attrs/ndevs", "/counters", "/hw_counters"})
    files.make(port + part);
  files.put(port + "/link_layer", "Ethernet");
  files.put(port + "/rate", shim::kRate);
  files.put(port + "/lid", "0x0");
  files.put(port + "/pkeys/0", "0xffff");
  files.put(port + "/state", "4: ACTIVE");
  files.put(port + "/phys_state", "5: LinkUp");
  for (const CounterInfo& info : kCounterInfos) files.put(port + "/hw_counters/" + std::string(info.name), "0");
  for (const StandardCounter& counter : kStandardCounters) files.put(port + "/counters/" + counter.name, "0");
}

std::string gid_text(const IpAddress& gid) {
  std::string out;
  for (std::size_t i = 0; i < gid.bytes.size(); i += 2)
    out += text(i == 0 ? "%02x%02x" : ":%02x%02x", gid.bytes[i], gid.bytes[i + 1]);
  return out;
}

void write_rows(Folder& files, const DeviceView& view) {
  const std::string port = port_folder();
  files.put(port + "/state", view.link_up ? "4: ACTIVE" : "1: DOWN");
  files.put(port + "/phys_state", view.link_up ? "5: LinkUp" : "3: Disabled");
  for (std::size_t i = 0; i < DeviceView::kMostRows; ++i) {
    const std::string gid = text("%s/gids/%zu", port.c_str(), i);
    const std::string type = text("%s/gid_attrs/types/%zu", port.c_str(), i);
    const std::string ndev = text("%s/gid_attrs/ndevs/%zu", port.c_str(), i);
    if (i < view.rows) {
      files.put(gid, gid_text(view.gids[i]));
      files.put(type, "RoCE v2");
      files.put(ndev, interface_name());
    } else if (i < written.rows) {
      for (const std::string& gone : {gid, type, ndev}) files.remove(gone);
    }
  }
}

/// In place: whoever has the file open sees it.
void write_counter(const std::string& path, std::uint64_t value) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  const std::string line = std::to_string(value) + "\n";
  if (pwrite(fd, line.data(), line.size(), 0) > 0) (void)!ftruncate(fd, static_cast<off_t>(line.size()));
  close(fd);
}

/// `path` ends in counters/NAME, or is of no interest.
void write_counter(const DeviceView& view, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (path.find("/hw_counters/") != std::string::npos) {
    for (std::size_t i = 0; i < kCounterInfos.size(); ++i)
      if (kCounterInfos[i].name == name) return write_counter(path, view.counters[i]);
  } else if (path.find("/counters/") != std::string::npos) {
    for (const StandardCounter& counter : kStandardCounters)
      if (counter.name == name) return write_counter(path, value_of(counter, view));
  }
}

/// Counters that the program has open. A number that now belongs to another file is noticed by its inode.
constexpr int kMostOpen = 1024;
std::atomic<bool> is_counter[kMostOpen];
struct OpenCounter {
  int fd;
  ino_t inode;
  std::string path;
};
std::vector<OpenCounter>& open_counters() {
  static auto* all = new std::vector<OpenCounter>;  // programs read until their very end
  return *all;
}

bool make_in(const char* place) {
  remove_abandoned_in(place);
  std::snprintf(folder, sizeof folder, "%s/%s%d", place, name_prefix().c_str(), getpid());
  if (mkdir(folder, 0700) != 0) return false;
  Folder files(folder);
  if (!files.is_open()) return false;
  make_device(files);
  make_port(files);
  written = {};
  owner = getpid();
  return true;
}

/// The folder of this process, with what is there to be known now. Under the mutex.
bool refresh(std::string_view path) {
  if (owner != getpid() || syscall(SYS_access, folder, F_OK) != 0) {
    bool made = false;
    for (const char* place : kPlaces) made = made || make_in(place);
    if (!made) return false;
  }
  static DeviceView view;
  if (path.find("/rocinante") == std::string_view::npos && !path.starts_with(kShown[0])) return true;
  if (!read_device(&view)) return true;
  Folder files(folder);
  const bool same_rows = view.rows == written.rows && view.gids == written.gids && view.link_up == written.link_up;
  if (!same_rows) {
    write_rows(files, view);
    written = view;
  }
  write_counter(view, folder + std::string(path));
  return true;
}

/// A child must not find the mutex taken by a thread that it does not have.
[[gnu::constructor]] void guard_forks() {
  pthread_atfork([] { pthread_mutex_lock(&mutex); }, [] { pthread_mutex_unlock(&mutex); },
                 [] { pthread_mutex_unlock(&mutex); });
}

[[gnu::destructor]] void leave() {
  if (owner == getpid()) remove_tree(AT_FDCWD, folder);
}

}  // namespace

const char* redirected(const char* path, char* buffer, std::size_t buffer_bytes) {
  if (path == nullptr || !is_shown(path)) return path;
  const int error = errno;
  pthread_mutex_lock(&mutex);
  const bool there = refresh(path);
  const int length = std::snprintf(buffer, buffer_bytes, "%s%s", folder, path);
  pthread_mutex_unlock(&mutex);
  errno = error;
  return there && length > 0 && static_cast<std::size_t>(length) < buffer_bytes ? buffer : path;
}

void remove_abandoned() {
  pthread_mutex_lock(&mutex);
  for (const char* place : kPlaces) remove_abandoned_in(place);
  pthread_mutex_unlock(&mutex);
}

void opened(const char* path, int fd) {
  if (fd < 0 || fd >= kMostOpen || std::strstr(path, "counters/") == nullptr) return;
  struct stat status {};
  if (fstat(fd, &status) != 0) return;
  pthread_mutex_lock(&mutex);
  std::erase_if(open_counters(), [&](const OpenCounter& one) { return one.fd == fd; });
  open_counters().push_back({fd, status.st_ino, path});
  pthread_mutex_unlock(&mutex);
  is_counter[fd].store(true, std::memory_order_relaxed);
}

void before_read(int fd) {
  if (fd < 0 || fd >= kMostOpen || !is_counter[fd].load(std::memory_order_relaxed)) return;
  const int error = errno;
  struct stat status {};
  static DeviceView view;
  pthread_mutex_lock(&mutex);
  for (const OpenCounter& one : open_counters())
    if (one.fd == fd && fstat(fd, &status) == 0 && status.st_ino == one.inode && read_device(&view))
      write_counter(view, one.path);
  pthread_mutex_unlock(&mutex);
  errno = error;
}

void strip_folder(char* path) {
  pthread_mutex_lock(&mutex);
  const std::size_t length = std::strlen(folder);
  if (owner == getpid() && std::strncmp(path, folder, length) == 0 && path[length] == '/')
    std::memmove(path, path + length, std::strlen(path + length) + 1);
  pthread_mutex_unlock(&mutex);
}

}  // namespace roci::redirect
