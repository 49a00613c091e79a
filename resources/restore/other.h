// What ObjectSet, and one room of another, ask rooms for beyond what resources/kinds.h names.
#pragma once

#include <optional>

#include "resources/restore/opening.h"

namespace cairn::restart {

// An object's descriptor in this process at or above the floor, or its own number if only the process could
// open it; -1: leave it out.
using FindTarget = std::function<int(std::int64_t object)>;
// In a process that has the epoll: registrations are known by the number that the watched descriptor had
// there, and a signalfd tells of the signals of who adds it.
[[nodiscard]] Result<> watch(const schema::Epoll& saved, int epoll, int floor, const FindTarget& find);

// In words, those of the files that an inotify or fanotify watched that aren't there.
[[nodiscard]] std::vector<std::string> missing_watched(const schema::Object& object,
                                                       const ObjectSetOptions& options);

[[nodiscard]] Result<Fd> open_pidfd(const schema::Object& object, const schema::Pidfd& saved,
                                    const ToKernel& to_kernel);  // in the process

// That the next message is to be told to this process, if this is the description that says so; fd is not
// filled in.
[[nodiscard]] std::optional<Notification> notification_of(const schema::Object& object,
                                                          const schema::Process& process);
[[nodiscard]] std::uint64_t queue_of(const schema::Object& object);  // 0: no queue

// Null: the object is no io_uring with registered buffers of this process.
[[nodiscard]] const std::vector<schema::RingBuffer>* buffers_of(const schema::Object& object,
                                                                const schema::Process& process);

}  // namespace cairn::restart
