// What the system knows by names, users and hosts, and how a static program asks for it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace cairn {

// The user's name (getpwuid(3)); none if nobody knows it. Not for threads that run beside each other.
std::optional<std::string> user_name(uid_t user);

// A static program asks the files of /etc and the DNS and no plugin: the plugins of glibc
// (nsswitch.conf(5)) belong to the libc of the machine, which isn't ours, and to load one of another version
// ends in a crash. To be called before any lookup of hosts; user_name() does it itself. Does nothing in other
// programs.
void look_up_without_plugins();

}  // namespace cairn
