#include "causality/trace.h"

#include <algorithm>
#include <utility>

namespace cairn::causality {

const std::vector<std::string> TraceSource::no_types(1);
const std::optional<Standing> TraceSource::no_standing;
const std::vector<Leak> TraceSource::no_leaks;

bool plausible(const Event& event, Process processes, std::size_t places, const char*& what) {
    const auto wrong = [&](const char* why) {
        what = why;
        return false;
    };
    const bool message = event.kind == Kind::send || event.kind == Kind::receive;
    const bool rooted = event.shape == Shape::from_root || event.shape == Shape::to_root;
    if (static_cast<unsigned>(event.kind) >= kinds) return wrong("its kind is unknown");
    if (static_cast<unsigned>(event.shape) >= shapes) return wrong("its shape is unknown");
    if ((event.flags & ~Flag::all) != 0) return wrong("it has unknown flags");
    if ((event.kind == Kind::collective) != (event.shape != Shape::alone))
        return wrong("collective events, and no others, have a shape");
    if (message && event.peer >= processes) return wrong("its peer is no process of the trace");
    if (rooted && event.peer >= processes) return wrong("its root is no process of the trace");
    const bool probe = event.kind == Kind::internal || event.kind == Kind::post;
    if (!message && !rooted && event.peer != none && (!probe || event.peer >= processes))
        return wrong("an event of its kind has no peer");
    const bool any = event.has(Flag::any_source | Flag::any_tag);
    if (any && event.kind != Kind::receive && !probe) return wrong("an event of its kind asks for no source");
    if (event.has(Flag::asks) && (event.kind != Kind::post || event.has(Flag::for_collective)))
        return wrong("only the post of a receive asks");
    if ((event.bytes != unknown_bytes || event.type != 0) && !event.sized())
        return wrong("an event of its kind has neither bytes nor a type");
    if (event.message != 0 && !message) return wrong("an event of its kind has no message number");
    if (event.place >= places) return wrong("its place in the source is not defined");
    if ((event.kind == Kind::post || event.kind == Kind::complete) && event.request == 0)
        return wrong("it opens or closes a request and names none");
    if (event.request != 0 && !event.opens() && !event.closes())
        return wrong("an event of its kind has no request");
    return true;
}

std::uint32_t MemoryTrace::type(const std::string& name) {
    const auto found = std::find(types_.begin(), types_.end(), name);
    if (found != types_.end()) return static_cast<std::uint32_t>(found - types_.begin());
    types_.push_back(name);
    return static_cast<std::uint32_t>(types_.size() - 1);
}

std::uint32_t MemoryTrace::place(const Place& place) {
    const auto found = std::find(places_.begin(), places_.end(), place);
    if (found != places_.end()) return static_cast<std::uint32_t>(found - places_.begin());
    places_.push_back(place);
    return static_cast<std::uint32_t>(places_.size() - 1);
}

void MemoryTrace::communicator(Communicator communicator) {
    for (Communicator& known : communicators_)
        if (known.id == communicator.id) {
            known = std::move(communicator);
            return;
        }
    communicators_.push_back(std::move(communicator));
}

void MemoryTrace::rewind() {
    std::fill(read_.begin(), read_.end(), 0);
}

Result<bool> MemoryTrace::next(Process process, Event& event) {
    const auto& mine = events_[process];
    if (read_[process] >= mine.size()) return false;
    event = mine[read_[process]++];
    return true;
}

}  // namespace cairn::causality
