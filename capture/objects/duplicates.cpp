#include "capture/objects/duplicates.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/objects/description.h"
#include "common/descriptor_room.h"

namespace cairn::capture {
namespace {

// So many that have been asked for last are never let go of: whoever looks at one, or compares two, has
// asked for them just now.
constexpr std::size_t in_use = 32;

// Sockets are not: whoever looks at connections has both ends in hand for long.
bool is_dispensable(const Description& description) {
    return description.number >= 0 && !description.is(S_IFSOCK);
}

}  // namespace

Duplicates::Duplicates() : most_(static_cast<std::size_t>(raise_descriptor_limit() / 4 * 3)) {}

void Duplicates::add(const Description& description) {
    ++held_;
    if (is_dispensable(description)) dispensable_.push_back(&description);
    make_room();
}

void Duplicates::take_again(const Description& description) {
    constexpr unsigned pidfd_thread = O_EXCL;
    const Holder& holder = description.holder;
    const bool by_thread = holder.tid != 0 && holder.tid != holder.pid;
    const Fd pidfd(static_cast<int>(
        ::syscall(SYS_pidfd_open, by_thread ? holder.tid : holder.pid, by_thread ? pidfd_thread : 0U)));
    description.duplicate.reset(
        static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), description.number, 0U)));
    if (description.duplicate) add(description);
}

void Duplicates::make_room() {
    while (held_ > most_ && dispensable_.size() > in_use) {
        dispensable_.front()->duplicate.reset();
        dispensable_.pop_front();
        --held_;
    }
}

void Duplicates::forget_all() {
    held_ = 0;
    dispensable_.clear();
}

}  // namespace cairn::capture
