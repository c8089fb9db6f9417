// Preloaded into the client: functions of libc that take a name of a file, each under all names that programs know it
// by. What Linux has of an RDMA device is looked for in our folder, everything else where it is.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>

#include "verbs-shim/redirect/files.h"

#define ROCI_EXPORT extern "C" __attribute__((visibility("default")))
// The next library's function of that name.
#define ROCI_NEXT(name) (next_of<decltype(&(name))>(#name))

namespace {

/// As long as any of the names that are redirected, with room for what follows.
constexpr std::size_t kLongestName = 512;

class Name {
 public:
  explicit Name(const char* path) : is_(roci::redirect::redirected(path, buffer_, sizeof buffer_)) {}
  operator const char*() const { return is_; }

  int opened_as(int fd) const {
    if (is_ == buffer_) roci::redirect::opened(is_, fd);
    return fd;
  }

 private:
  char buffer_[kLongestName];
  const char* is_;
};

template <class Function>
Function next_of(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool has_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

}  // namespace

// Not declared for new programs, but called by those that were compiled with other settings or with an older libc.
extern "C" {
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);
int __xstat(int, const char*, struct stat*);
int __xstat64(int, const char*, struct stat64*);
int __lxstat(int, const char*, struct stat*);
int __lxstat64(int, const char*, struct stat64*);
int __fxstatat(int, int, const char*, struct stat*, int);
int __fxstatat64(int, int, const char*, struct stat64*, int);
char* __realpath_chk(const char*, char*, std::size_t);
ssize_t __read_chk(int, void*, std::size_t, std::size_t);
ssize_t __readlink_chk(const char*, char*, std::size_t, std::size_t);
ssize_t __readlinkat_chk(int, const char*, char*, std::size_t, std::size_t);
}

#define ROCI_MODE_OF(flags)           \
  mode_t mode = 0;                    \
  if (has_mode(flags)) {              \
    va_list arguments;                \
    va_start(arguments, flags);       \
    mode = va_arg(arguments, mode_t); \
    va_end(arguments);                \
  }

ROCI_EXPORT int open(const char* path, int flags, ...) {
  ROCI_MODE_OF(flags)
  static const auto next = ROCI_NEXT(open);
  const Name name(path);
  return name.opened_as(next(name, flags, mode));
}

ROCI_EXPORT int open64(const char* path, int flags, ...) {
  ROCI_MODE_OF(flags)
  static const auto next = ROCI_NEXT(open64);
  const Name name(path);
  return name.opened_as(next(name, flags, mode));
}

ROCI_EXPORT int openat(int folder, const char* path, int flags, ...) {
  ROCI_MODE_OF(flags)
  static const auto next = ROCI_NEXT(openat);
  const Name name(path);
  return name.opened_as(next(folder, name, flags, mode));
}

ROCI_EXPORT int openat64(int folder, const char* path, int flags, ...) {
  ROCI_MODE_OF(flags)
  static const auto next = ROCI_NEXT(openat64);
  const Name name(path);
  return name.opened_as(next(folder, name, flags, mode));
}

// Functions of a fixed form: result, name, parameters, and how they are passed on.
#define ROCI_PASS(result, name, parameters, arguments) \
  ROCI_EXPORT result name parameters {                 \
    static const auto next = ROCI_NEXT(name);          \
    return next arguments;                             \
  }

ROCI_EXPORT int __open_2(const char* path, int flags) {
  static const auto next = ROCI_NEXT(__open_2);
  const Name name(path);
  return name.opened_as(next(name, flags));
}

ROCI_EXPORT int __open64_2(const char* path, int flags) {
  static const auto next = ROCI_NEXT(__open64_2);
  const Name name(path);
  return name.opened_as(next(name, flags));
}

ROCI_PASS(int, __openat_2, (int folder, const char* path, int flags), (folder, Name(path), flags))
ROCI_PASS(int, __openat64_2, (int folder, const char* path, int flags), (folder, Name(path), flags))
ROCI_PASS(FILE*, fopen, (const char* path, const char* mode), (Name(path), mode))
ROCI_PASS(FILE*, fopen64, (const char* path, const char* mode), (Name(path), mode))

ROCI_PASS(int, stat, (const char* path, struct stat* out) noexcept, (Name(path), out))
ROCI_PASS(int, stat64, (const char* path, struct stat64* out) noexcept, (Name(path), out))
ROCI_PASS(int, lstat, (const char* path, struct stat* out) noexcept, (Name(path), out))
ROCI_PASS(int, lstat64, (const char* path, struct stat64* out) noexcept, (Name(path), out))
ROCI_PASS(int, fstatat, (int folder, const char* path, struct stat* out, int flags) noexcept,
          (folder, Name(path), out, flags))
ROCI_PASS(int, fstatat64, (int folder, const char* path, struct stat64* out, int flags) noexcept,
          (folder, Name(path), out, flags))
ROCI_PASS(int, statx, (int folder, const char* path, int flags, unsigned mask, struct statx* out) noexcept,
          (folder, Name(path), flags, mask, out))
ROCI_PASS(int, __xstat, (int version, const char* path, struct stat* out), (version, Name(path), out))
ROCI_PASS(int, __xstat64, (int version, const char* path, struct stat64* out), (version, Name(path), out))
ROCI_PASS(int, __lxstat, (int version, const char* path, struct stat* out), (version, Name(path), out))
ROCI_PASS(int, __lxstat64, (int version, const char* path, struct stat64* out), (version, Name(path), out))
ROCI_PASS(int, __fxstatat, (int version, int folder, const char* path, struct stat* out, int flags),
          (version, folder, Name(path), out, flags))
ROCI_PASS(int, __fxstatat64, (int version, int folder, const char* path, struct stat64* out, int flags),
          (version, folder, Name(path), out, flags))

ROCI_PASS(int, access, (const char* path, int rights) noexcept, (Name(path), rights))
ROCI_PASS(int, faccessat, (int folder, const char* path, int rights, int flags) noexcept,
          (folder, Name(path), rights, flags))
ROCI_PASS(DIR*, opendir, (const char* path), (Name(path)))
ROCI_PASS(int, scandir,
          (const char* path, dirent*** out, int (*wanted)(const dirent*),
           int (*compare)(const dirent**, const dirent**)),
          (Name(path), out, wanted, compare))
ROCI_PASS(int, scandir64,
          (const char* path, dirent64*** out, int (*wanted)(const dirent64*),
           int (*compare)(const dirent64**, const dirent64**)),
          (Name(path), out, wanted, compare))
ROCI_PASS(ssize_t, readlink, (const char* path, char* out, std::size_t bytes) noexcept, (Name(path), out, bytes))
ROCI_PASS(ssize_t, __readlink_chk, (const char* path, char* out, std::size_t bytes, std::size_t room),
          (Name(path), out, bytes, room))
ROCI_PASS(ssize_t, readlinkat, (int folder, const char* path, char* out, std::size_t bytes) noexcept,
          (folder, Name(path), out, bytes))
ROCI_PASS(ssize_t, __readlinkat_chk, (int folder, const char* path, char* out, std::size_t bytes, std::size_t room),
          (folder, Name(path), out, bytes, room))
// ls -l asks for these.
ROCI_PASS(ssize_t, getxattr, (const char* path, const char* name, void* out, std::size_t bytes) noexcept,
          (Name(path), name, out, bytes))
ROCI_PASS(ssize_t, lgetxattr, (const char* path, const char* name, void* out, std::size_t bytes) noexcept,
          (Name(path), name, out, bytes))

// Reading a counter again.
#define ROCI_READ(name, parameters, arguments) \
  ROCI_EXPORT ssize_t name parameters {        \
    static const auto next = ROCI_NEXT(name);  \
    roci::redirect::before_read(fd);           \
    return next arguments;                     \
  }

ROCI_READ(read, (int fd, void* out, std::size_t bytes), (fd, out, bytes))
ROCI_READ(__read_chk, (int fd, void* out, std::size_t bytes, std::size_t room), (fd, out, bytes, room))
ROCI_READ(pread, (int fd, void* out, std::size_t bytes, off_t at), (fd, out, bytes, at))
ROCI_READ(pread64, (int fd, void* out, std::size_t bytes, off64_t at), (fd, out, bytes, at))

// What these find is a name again.
namespace {

char* shown(char* found) {
  if (found != nullptr) roci::redirect::strip_folder(found);
  return found;
}

int shown(int result, int flags, const glob_t* found) {
  const std::size_t first = (flags & GLOB_DOOFFS) != 0 ? found->gl_offs : 0;
  for (std::size_t i = 0; result == 0 && i < found->gl_pathc; ++i)
    roci::redirect::strip_folder(found->gl_pathv[first + i]);
  return result;
}

}  // namespace

ROCI_EXPORT char* realpath(const char* path, char* out) noexcept {
  static const auto next = ROCI_NEXT(realpath);
  return shown(next(Name(path), out));
}

ROCI_EXPORT char* __realpath_chk(const char* path, char* out, std::size_t room) {
  static const auto next = ROCI_NEXT(__realpath_chk);
  return shown(next(Name(path), out, room));
}

ROCI_EXPORT char* canonicalize_file_name(const char* path) noexcept {
  static const auto next = ROCI_NEXT(canonicalize_file_name);
  return shown(next(Name(path)));
}

ROCI_EXPORT int glob(const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* out) noexcept {
  static const auto next = ROCI_NEXT(glob);
  return shown(next(Name(pattern), flags, on_error, out), flags, out);
}

ROCI_EXPORT int glob64(const char* pattern, int flags, int (*on_error)(const char*, int), glob64_t* out) noexcept {
  static const auto next = ROCI_NEXT(glob64);
  return shown(next(Name(pattern), flags, on_error, out), flags, reinterpret_cast<const glob_t*>(out));
}
