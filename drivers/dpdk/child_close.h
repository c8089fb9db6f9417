// What must not outlive this process in a child that it forked: a port on an interface, its XDP program.
#pragma once

namespace roci::dpdk {

/// A child made by fork() closes this descriptor: it would otherwise hold what it stands for after this process's end.
/// Control calls only. At most 128; beyond that children keep theirs.
void close_in_child(int fd);
/// Nor does a child get what is mapped of it, which holds it just as well.
void unmap_in_child(int fd);
/// Somebody else is about to close it here.
void forget_in_child(int fd);
/// Closes it here, too. Nothing is done with a negative one.
void close_for_good(int fd);

}  // namespace roci::dpdk
