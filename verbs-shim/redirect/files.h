// The files that Linux has of an RDMA device, in a folder of this process's own. It is made when the program first
// asks for such a file, and goes with the process.
#pragma once

#include <cstddef>

namespace roci::redirect {

/// A name as the program gives it becomes the name of the file that stands for it: itself, or a copy in `buffer`.
/// errno stays as it is. Any thread.
const char* redirected(const char* path, char* buffer, std::size_t buffer_bytes);

/// A name that the system has found becomes what the program is to see: in place, the folder cut off.
void strip_folder(char* path);

/// Takes away the folders that processes of this user have left which were killed. Any thread.
void remove_abandoned();

/// A file was opened by a name that redirected() gave back.
void opened(const char* path, int fd);
/// What is about to be read is a counter that was opened before: it says what it is now, as sysfs does to whoever
/// reads again. Any thread.
void before_read(int fd);

}  // namespace roci::redirect
