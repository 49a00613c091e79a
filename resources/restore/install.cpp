// Descriptors put in place: in a process before its exec, and what comes last, when its memory is there.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <set>

#include "resources/restore/other.h"
#include "resources/restore/set_state.h"
#include "resources/schema/descriptor_room.h"

namespace cairn::restart {
namespace {

Result<> close_others(const std::set<unsigned>& open) {
    unsigned next = 0;
    for (const unsigned fd : open) {
        if (fd > next && ::close_range(next, fd - 1, 0) != 0) return fail_errno("close_range");
        next = fd + 1;
    }
    if (::close_range(next, UINT_MAX, 0) != 0) return fail_errno("close_range");
    return {};
}

Result<> put_at(Fd from, int number) {
    if (from.get() == number) {
        ::fcntl(from.release(), F_SETFD, 0);
    } else if (::dup2(from.get(), number) < 0) {
        return fail_errno("descriptor {}", number);
    }
    return {};
}

// The tool has raised its own as far as it may (raise_open_files()), and those that it forks inherit it.
std::uint64_t descriptor_limit() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

}  // namespace

// Where an object can be found in the process: at its high number, or, if only the process could open it, at
// its own. For the process that becomes the program both are of its table.
int ObjectSet::descriptor_of(const schema::Process& process, std::int64_t object) const {
    if (const int high = fd_of(object); high >= 0) return high;
    for (const schema::Descriptor& descriptor : process.descriptors)
        if (descriptor.object == object) return descriptor.fd.number();
    return -1;
}

// What the tool has opened since this process was forked, of the same open file description.
Result<Fd> ObjectSet::fetch(std::int64_t object) const {
    const auto* number = state_->later->at(static_cast<std::size_t>(object));
    if (number == nullptr || number->load() == 0) return fail("object {} isn't open in the tool", object);
    const Fd tool(static_cast<int>(::syscall(SYS_pidfd_open, state_->tool, 0)));
    Fd fetched(static_cast<int>(::syscall(SYS_pidfd_getfd, tool.get(), number->load() - 1, 0U)));
    if (!fetched) return fail_errno("pidfd_getfd");
    return fetched;
}

// What isn't open in the tool: opened in the process that is to have it, once for all who share it.
Result<Fd> ObjectSet::open_here(const schema::Object& object, const schema::Process& process,
                                const ToKernel& to_kernel) const {
    if (is_last(object)) {  // for the moment
        Fd placeholder(::open("/dev/null", O_PATH | O_CLOEXEC));
        if (!placeholder) return fail_errno("/dev/null");
        return placeholder;
    }
    if (auto fetched = fetch(object.id)) return fetched;
    if (auto taken = take_from_first(*state_->first_holders, object.id)) return std::move(*taken);
    return open_late(object, process, state_->options.access, to_kernel);
}

Result<> ObjectSet::install(const schema::Process& process, std::span<const int> keep,
                            const ToKernel& to_kernel) const {
    if (state_->options.width != 0) return install_narrow(process, keep, to_kernel);
    std::set<unsigned> open;
    for (const int fd : keep)
        if (fd >= 0) open.insert(static_cast<unsigned>(fd));
    for (const schema::Descriptor& descriptor : process.descriptors) {
        const int number = descriptor.fd.number();
        int from = state_->stand_in(descriptor.object, descriptor.fd);
        if (from < 0) from = fd_of(descriptor.object);
        Fd late;
        if (from < 0) {
            const auto object = state_->objects.find(descriptor.object);
            if (object == state_->objects.end())
                return fail_code(ExitCode::damaged, "descriptor {} leads to object {}, which isn't there",
                                 descriptor.fd, descriptor.object);
            auto opened = open_here(object->second, process, to_kernel);
            if (!opened)
                return std::unexpected(
                    std::move(opened.error()).in(fmt::format("descriptor {}", descriptor.fd)));
            late = std::move(*opened);
            from = late.get();
        }
        if (from == number) {
            ::fcntl(late.release(), F_SETFD, 0);
        } else if (::dup2(from, number) < 0) {
            return fail_errno("descriptor {}", descriptor.fd);
        }
        if (late || from == number) say_where(*state_->first_holders, descriptor.object, number);
        open.insert(static_cast<unsigned>(number));
    }
    for (const schema::Descriptor& descriptor : process.descriptors) {
        const auto object = state_->objects.find(descriptor.object);
        const auto* epoll = object == state_->objects.end() ? nullptr : object->second.get<schema::Epoll>();
        if (epoll == nullptr) continue;
        // What only a process itself can open is added by each who has it, everything else once.
        auto* claim = state_->claimed->at(static_cast<std::size_t>(object->first));
        const bool first = claim == nullptr || !claim->exchange(true);
        const auto find = [&](std::int64_t id) {
            const auto target = state_->objects.find(id);
            const bool late = target != state_->objects.end() && is_late(target->second);
            if (late && is_last(target->second)) return -1;
            return first || late ? descriptor_of(process, id) : -1;
        };
        CHECK_OK(watch(*epoll, descriptor.fd.number(), state_->options.floor, find));
    }
    return close_others(open);
}

// Which descriptors of a process aren't there before its memory is: those at the restart's own numbers, and
// one that is a duplicate of another where every number is taken.
class ObjectSet::Postponing {
  public:
    [[nodiscard]] static Result<Postponing> find(const schema::Process& process,
                                                 const ObjectSetOptions& options) {
        auto last = TRY(last_descriptor(process, descriptor_limit()));
        return Postponing({options.floor, options.width}, last);
    }
    [[nodiscard]] bool contains(ProgramFd number) const { return number == last_ || room_.is_own(number); }
    [[nodiscard]] ProgramFd last() const { return last_; }

  private:
    Postponing(DescriptorRoom room, ProgramFd last) : room_(room), last_(last) {}
    DescriptorRoom room_;
    ProgramFd last_;
};

Result<> ObjectSet::hand_to_keepers() {
    const auto& options = state_->options;
    if (options.width == 0) return {};
    CHECK_OK(state_->opened.hand_over());
    state_->opened.close_doors();
    state_->needed_from = options.floor;
    for (int number = options.floor; number < options.floor + options.width; ++number)
        if (::fcntl(number, F_GETFD) >= 0) state_->needed_from = number + 1;
    return {};
}

int ObjectSet::place_of(const schema::Process& process, std::int64_t object) const {
    if (state_->options.width == 0) return fd_of(object);
    if (!state_->opened.contains(object)) return -1;
    const auto needed = needed_to_rebuild(process);
    const auto found = std::ranges::lower_bound(needed, object);
    if (found == needed.end() || *found != object) return -1;
    return state_->needed_from + static_cast<int>(found - needed.begin());
}

// Where room is narrow, nothing is open but what is kept for the rebuilding: each description is fetched, put
// at its number and closed again.
Result<> ObjectSet::install_narrow(const schema::Process& process, std::span<const int> keep,
                                   const ToKernel& to_kernel) const {
    const auto& options = state_->options;
    const auto postponing = TRY(Postponing::find(process, options));
    const auto needed = needed_to_rebuild(process);
    // Behind them: the pidfd that all is fetched by, and what comes by it.
    const int behind_needed = state_->needed_from + static_cast<int>(needed.size());
    if (behind_needed + 2 > options.floor + options.width)
        return fail("{} files have to be open at once while it is rebuilt, and there is no room for them",
                    needed.size());
    std::set<unsigned> open, standing_in;
    for (const int fd : keep)
        if (fd >= 0) open.insert(static_cast<unsigned>(fd));
    for (const auto& [id, three] : state_->stand_ins)
        for (const Fd& each : three)
            if (each) standing_in.insert(static_cast<unsigned>(each.get()));
    standing_in.insert(open.begin(), open.end());
    CHECK_OK(close_others(standing_in));

    Fetcher fetcher(behind_needed);
    for (const std::int64_t id : needed) {
        const auto kept = state_->opened.kept(id);
        if (!kept) continue;
        auto fetched = TRY(fetcher.fetch(*kept));
        const int place = place_of(process, id);
        CHECK_OK(put_at(std::move(fetched), place));
        open.insert(static_cast<unsigned>(place));
    }
    std::map<std::int64_t, int> placed;  // object -> a number of it
    for (const auto& [fd, id, close_on_exec] : process.descriptors) {
        if (postponing.contains(fd)) continue;
        const int number = fd.number();
        open.insert(static_cast<unsigned>(number));
        int held = state_->stand_in(id, fd);
        if (const auto again = placed.find(id); held < 0 && again != placed.end()) held = again->second;
        placed.emplace(id, number);
        if (held >= 0) {
            if (::dup2(held, number) < 0) return fail_errno("descriptor {}", fd);
            continue;
        }
        const auto* object = state_->find(id);
        if (object == nullptr)
            return fail_code(ExitCode::damaged, "descriptor {} leads to object {}, which isn't there", fd,
                             id);
        Result<Fd> opened = fail("isn't kept");
        if (const auto kept = state_->opened.kept(id))
            opened = fetcher.fetch(*kept);
        else
            opened = open_here(*object, process, to_kernel);
        if (!opened) return std::unexpected(std::move(opened.error()).in(fmt::format("descriptor {}", fd)));
        CHECK_OK(put_at(std::move(*opened), number));
        say_where(*state_->first_holders, id, number);
    }
    for (const schema::Descriptor& descriptor : process.descriptors) {
        const auto* object = state_->find(descriptor.object);
        const auto* saved = object == nullptr ? nullptr : object->get<schema::Epoll>();
        if (saved == nullptr) continue;
        auto* claim = state_->claimed->at(static_cast<std::size_t>(object->id));
        const bool first = claim == nullptr || !claim->exchange(true);
        // Postponed, or only in other processes.
        const auto lend = [&](std::int64_t id) -> Lent {
            if (const auto here = placed.find(id); here != placed.end()) return Lent(here->second);
            const auto kept = state_->opened.kept(id);
            auto fetched = kept ? fetcher.fetch(*kept) : fetch(id);
            return fetched ? Lent(std::move(*fetched)) : Lent();
        };
        const Lent epoll = lend(object->id);
        Lent target;
        const auto find = [&](std::int64_t id) {
            const auto* watched = state_->find(id);
            const bool late = watched != nullptr && is_late(*watched);
            if (late && is_last(*watched)) return -1;
            target = first || late ? lend(id) : Lent();
            return target.get();
        };
        CHECK_OK(watch(*saved, epoll.get(), options.floor, find));
    }
    return close_others(open);
}

Result<Postponed> ObjectSet::postponed(const schema::Process& process) const {
    const auto& options = state_->options;
    Postponed result;
    if (options.width == 0) return result;
    const auto postponing = Postponing::find(process, options);
    if (!postponing) return std::unexpected(postponing.error());
    result.first_own = options.floor;
    result.last_own = options.floor + options.width - 1;
    std::map<std::int64_t, ProgramFd> placed;
    std::set<ProgramFd> numbers;
    for (const schema::Descriptor& descriptor : process.descriptors) {
        numbers.insert(descriptor.fd);
        if (!postponing->contains(descriptor.fd)) placed.emplace(descriptor.object, descriptor.fd);
    }
    std::vector<PostponedDescriptor> twins, last;
    for (const auto& [fd, id, close_on_exec] : process.descriptors) {
        if (!postponing->contains(fd)) continue;
        const auto kept = state_->opened.kept(id);
        const auto twin = placed.find(id);
        if (twin != placed.end()) {
            (fd == postponing->last() ? last : twins).push_back({fd, {}, twin->second});
        } else if (kept && fd != postponing->last()) {
            result.descriptors.push_back({fd, *kept, {}});
            placed.emplace(id, fd);
        } else {
            return fail("descriptor {} of process {} can't be put in place last", fd, process.pid);
        }
    }
    std::ranges::stable_sort(result.descriptors, {}, [](const auto& each) { return each.kept.keeper; });
    for (const auto* others : {&twins, &last})
        result.descriptors.insert(result.descriptors.end(), others->begin(), others->end());
    result.seat = postponing->last();
    for (int free = 0; !result.seat.known(); ++free)
        if (!numbers.contains(ProgramFd(free))) result.seat = ProgramFd(free);
    return result;
}

}  // namespace cairn::restart
