// The rooms' functions for kinds.cpp and ObjectSet.
#pragma once

#include <optional>

#include "common/proc.h"
#include "resources/restore/opening.h"

namespace cairn::restart {

[[nodiscard]] Result<Fd> open_eventfd(const schema::Eventfd& saved);
[[nodiscard]] Result<Fd> open_namespace(const schema::Namespace& saved);
[[nodiscard]] Result<Fd> open_signalfd(const schema::Signalfd& saved);

[[nodiscard]] Result<Fd> open_timerfd(const schema::Timerfd& saved);
// When the programs are about to go on. `ahead`: what their clocks show more than the tool's.
[[nodiscard]] Result<> arm_timerfd(const schema::Timerfd& saved, int fd, const proc::ClockOffsets& ahead);

[[nodiscard]] Result<Fd> open_epoll();
// An object's descriptor in this process at or above the floor, or its own number if only the process could
// open it; -1: leave it out.
using FindTarget = std::function<int(std::int64_t object)>;
// In a process that has the epoll: registrations are known by the number that the watched descriptor had
// there, and a signalfd tells of the signals of who adds it.
[[nodiscard]] Result<> watch(const schema::Epoll& saved, int epoll, int floor, const FindTarget& find);

[[nodiscard]] Result<Fd> open_fanotify(const schema::Fanotify& saved);
[[nodiscard]] Result<> mark_files(const schema::Object& object, const schema::Fanotify& saved, int fd,
                                  const ObjectSetOptions& options,
                                  const std::function<int(std::int64_t)>& fd_of);  // as watch_files
[[nodiscard]] Result<Fd> open_inotify();
// Last of all: what a restart opens and closes must not be an event. `fd_of` gives an object's descriptor.
[[nodiscard]] Result<> watch_files(const schema::Object& object, const schema::Inotify& saved, int fd,
                                   const ObjectSetOptions& options,
                                   const std::function<int(std::int64_t)>& fd_of);
// In words, those of the watched files that aren't there.
[[nodiscard]] std::vector<std::string> missing_watched(const schema::Object& object,
                                                       const ObjectSetOptions& options);

[[nodiscard]] Result<Fd> open_pidfd(const schema::Object& object, const schema::Pidfd& saved,
                                    const Translate& to_kernel);  // in the process
[[nodiscard]] Result<Fd> open_dead_pidfd(const schema::Object& object);

[[nodiscard]] Result<Fd> open_mqueue(Opening& opening, const schema::Object& object,
                                     const schema::Mqueue& saved);
// That the next message is to be told to this process, if this is the description that says so; fd is not
// filled in.
[[nodiscard]] std::optional<Notification> notification_of(const schema::Object& object,
                                                          const schema::Process& process);
[[nodiscard]] std::uint64_t queue_of(const schema::Object& object);  // 0: no queue

// After everything else: descriptors on their way through them may be anything.
[[nodiscard]] Result<> open_unix_sockets(Opening& opening);
[[nodiscard]] Result<> open_tcp_sockets(Opening& opening);
[[nodiscard]] Result<> open_datagram_sockets(Opening& opening);  // UDP, raw
[[nodiscard]] Result<Fd> open_packet_socket(Opening& opening, const schema::Packet& saved);
[[nodiscard]] Result<Fd> open_netlink(Opening& opening, const schema::Netlink& saved);

}  // namespace cairn::restart
