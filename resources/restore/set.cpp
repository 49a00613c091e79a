// All objects of a part of a computation, opened in the order in which they need each other.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <set>

#include "resources/namespace/restore.h"
#include "resources/restore/kinds.h"
#include "resources/restore/other.h"
#include "resources/restore/set_state.h"
#include "resources/schema/fields.h"

namespace cairn::restart {

using schema::Object;

int reopen_flags(std::int32_t flags) {
    return (flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_ASYNC | O_CLOEXEC | O_NOFOLLOW)) | O_NOCTTY;
}

std::string fd_path(int fd) {
    return fmt::format("/proc/self/fd/{}", fd);
}

std::string mapped_path(const std::string& path, const ObjectSetOptions& options) {
    const std::pair<std::string, std::string>* best = nullptr;
    for (const auto& each : options.path_map) {
        const std::string& old = each.first;
        if (old.empty() || !path.starts_with(old)) continue;
        const bool whole = path.size() == old.size() || old.back() == '/' || path[old.size()] == '/';
        if (whole && (!best || old.size() > best->first.size())) best = &each;
    }
    return best ? best->second + path.substr(best->first.size()) : path;
}

Result<> Opening::keep(const Object& object, Fd fd) {
    CHECK_OK(keep_copy(object, fd.get()));
    return {};
}

Result<> Opening::keep_copy(const Object& object, int fd) {
    auto done = opened.put(object.id, fd);
    if (!done && (done.error().number == EMFILE || done.error().number == EINVAL))
        return fail_code(
            ExitCode::failed,
            "the limit of open files is too low: the programs use descriptors up to {}, and the objects "
            "that they share have to be open above that at once: raise `ulimit -Hn`",
            options.floor - 1);
    return done;
}

bool Opening::stand_in(const Object& object) {
    const int own = object.standard.known()
                        ? options.standard.at(static_cast<std::size_t>(object.standard.number()))
                        : -1;
    if (own < 0 || !keep_copy(object, own)) return false;
    if ((object.flags & O_ACCMODE) != O_RDWR) return true;
    auto& each = stand_ins[object.id];
    for (std::size_t number = 0; number < each.size(); ++number) {
        each[number].reset(::fcntl(options.standard[number], F_DUPFD, options.floor));
        if (each[number]) continue;
        const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
        each[number].reset(::fcntl(null.get(), F_DUPFD, options.floor));
    }
    return true;
}

ObjectSet::ObjectSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObjectSet::ObjectSet(ObjectSet&&) noexcept = default;
ObjectSet& ObjectSet::operator=(ObjectSet&&) noexcept = default;
ObjectSet::~ObjectSet() = default;

namespace {

// The terminal of the part: the one that controls a session, else the one of a standard descriptor.
std::int64_t find_main_terminal(const schema::Objects& objects) {
    std::int64_t main = -1;
    for (const Object& object : objects.objects) {
        const auto* saved = object.get<schema::Terminal>();
        if (saved == nullptr) continue;
        if (saved->terminal.session != ProgramId()) return saved->terminal.pair;
        if (main < 0 && object.standard.known()) main = saved->terminal.pair;
    }
    return main;
}

}  // namespace

Result<ObjectSet> ObjectSet::open_all(const schema::Objects& objects, const ImageReader& image,
                                      const ObjectSetOptions& options, std::vector<std::string>& notes) {
    CHECK_OK(check_files(objects, options, notes));
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    // As many as there are numbers below those that have to stay free, less what the tool has open itself.
    constexpr int own = 128, most = 1024;
    Holding holding =
        options.width == 0
            ? Holding(options.floor)
            : Holding(static_cast<std::size_t>(std::clamp(options.floor - own, 1, most)), options.avoid);
    Opening opening{objects, image, options, notes, find_main_terminal(objects), std::move(holding), {}, {},
                    {},      {},    {},      {}};
    CHECK_OK(open_kinds(opening));
    auto state = std::make_unique<State>();
    state->opened = std::move(opening.opened);
    state->launchers = std::move(opening.launchers);
    state->others_terminals = std::move(opening.others_terminals);
    state->stand_ins = std::move(opening.stand_ins);
    state->cuts = std::move(opening.cuts);
    state->refills = std::move(opening.refills);
    state->options = options;
    std::int64_t highest = 0;
    for (const Object& object : objects.objects) highest = std::max(highest, object.id);
    state->claimed = std::make_unique<SharedArray<bool>>(static_cast<std::size_t>(highest) + 1);
    state->later = std::make_unique<SharedArray<std::int32_t>>(static_cast<std::size_t>(highest) + 1);
    state->first_holders = std::make_unique<FirstHolders>(static_cast<std::size_t>(highest) + 1);
    for (const Object& object : objects.objects) {
        Object small = object;
        if (auto* memory = small.get<schema::Memory>(); memory && !state->refills.contains(object.id))
            memory->pages.clear();
        small.contents.clear();
        state->objects.emplace(object.id, std::move(small));
    }
    return ObjectSet(std::move(state));
}

int ObjectSet::fd_of(std::int64_t object) const {
    return state_->opened.here(object);
}

Result<Lent> ObjectSet::lend(std::int64_t object) const {
    return state_->opened.lend(object);
}

Result<> ObjectSet::in_own_space(std::int64_t space, const std::function<Result<>()>& work) const {
    return restart::in_own_space(
        state_->find(space), space, [this](std::int64_t object) { return lend(object); }, work);
}

Fd ObjectSet::take_launcher(std::int64_t object) {
    const auto found = state_->launchers.find(object);
    return found == state_->launchers.end() ? Fd() : std::move(found->second);
}

Result<> ObjectSet::open_processes(const ToKernel& to_kernel) {
    for (const auto& [id, object] : state_->objects) {
        const auto* pidfd = object.get<schema::Pidfd>();
        if (pidfd == nullptr || is_last(object) || state_->opened.contains(id)) continue;
        auto process = TRY(open_pidfd(object, *pidfd, to_kernel));
        auto* number = state_->later->at(static_cast<std::size_t>(id));
        if (number == nullptr) return fail("no memory for the number of a pidfd");
        CHECK_OK(state_->opened.put(id, process.get()));
        number->store(state_->opened.here(id) + 1);
    }
    // Yama lets a process reach its descendants only; here it is the other way round, see fetch().
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    return {};
}

namespace {

// As the owner of a pipe one may open it again by /proc/PID/fd (proc(5)), and rules of the network ask for a
// socket's (`sk_uid`). Only root can give it to somebody else; what stands in for an end outside isn't ours
// to give.
void give_to_maker(const schema::Object& object, int fd) {
    if (!object.maker || object.outside || ::geteuid() != 0) return;
    (void)!::fchown(fd, *object.maker, object.maker_group.value_or(static_cast<gid_t>(-1)));
}

}  // namespace

Result<> set_owner(const schema::Object& object, int fd, const ToKernel& to_kernel) {
    if (object.owner != ProgramId()) {
        f_owner_ex owner{};
        owner.type = static_cast<decltype(owner.type)>(object.owner_type);
        owner.pid = kernel_id(to_kernel, object.owner).number();
        // Who had already gone gets nothing.
        if (::fcntl(fd, F_SETOWN_EX, &owner) != 0 && errno != ESRCH)
            return fail_errno("{}: owner {} (F_SETOWN)", object.path, object.owner);
    }
    if (object.owner_signal != 0 && ::fcntl(fd, F_SETSIG, object.owner_signal) != 0)
        return fail_errno("{}: signal {} (F_SETSIG)", object.path, object.owner_signal);
    if ((object.flags & O_ASYNC) != 0 && ::fcntl(fd, F_SETFL, object.flags) != 0)
        return fail_errno("{}: O_ASYNC", object.path);
    return {};
}

std::vector<Notification> ObjectSet::notifications(const schema::Process& process) const {
    std::vector<Notification> all;
    for (const auto& [id, object] : state_->objects) {
        auto found = notification_of(object, process);
        if (!found) continue;
        for (const schema::Descriptor& descriptor : process.descriptors)
            if (const auto other = state_->objects.find(descriptor.object);
                other != state_->objects.end() && queue_of(other->second) == found->queue)
                found->fd = descriptor.fd;
        if (found->fd.known()) all.push_back(*found);
    }
    return all;
}

std::vector<BuffersToRegister> ObjectSet::ring_buffers(const schema::Process& process) const {
    std::vector<BuffersToRegister> all;
    std::set<std::int64_t> seen;
    for (const schema::Descriptor& descriptor : process.descriptors) {
        const auto found = state_->objects.find(descriptor.object);
        const auto* buffers = found == state_->objects.end() ? nullptr : buffers_of(found->second, process);
        if (buffers != nullptr && seen.insert(descriptor.object).second)
            all.push_back({descriptor.fd, *buffers});
    }
    return all;
}

Result<> ObjectSet::after_forest(const ToKernel& to_kernel, const proc::ClockOffsets& ahead,
                                 std::vector<std::string>& notes) {
    AfterForest after{state_->options, ahead, notes, {}, [this](std::int64_t id) { return lend(id); }};
    for (const auto& [id, object] : state_->objects) {
        const auto held = TRY(lend(id));
        const int fd = held.get();
        if (fd < 0) continue;
        CHECK_OK(set_up_kind(object, fd, after));
        give_to_maker(object, fd);
        CHECK_OK(set_owner(object, fd, to_kernel));
    }
    return {};
}

Result<> ObjectSet::change_files(const ImageReader& image, std::vector<std::string>& notes) {
    for (const auto& [id, file] : state_->refills)
        CHECK_OK(refill_memory(image, state_->objects.at(id), file.get()));
    for (const Cut& cut : state_->cuts) {
        auto aside = cut_back(cut, state_->options.directory);
        if (!aside) return std::unexpected(std::move(aside.error()));
        if (!aside->empty())
            notes.push_back(fmt::format("{}: what was behind its first {} bytes is kept in {}", cut.path,
                                        cut.size, *aside));
    }
    state_->refills.clear();
    state_->cuts.clear();
    return start_watching();
}

// The processes have everything in place: the last that this tool opens or closes is over before anybody
// watches.
Result<> ObjectSet::start_watching() {
    if (std::ranges::none_of(state_->objects, [](const auto& each) { return is_watcher(each.second); }))
        return {};
    CHECK_OK(state_->opened.keep_only([&](std::int64_t id) {
        const Object* object = state_->find(id);
        return object != nullptr && (is_watcher(*object) || (object->is<schema::File>() && object->deleted));
    }));
    for (const auto& [id, watcher] : state_->objects) {
        const int fd = fd_of(id);
        if (!is_watcher(watcher) || fd < 0) continue;
        CHECK_OK(begin_watching(watcher, fd, state_->options,
                                [this](std::int64_t object) { return fd_of(object); }));
    }
    return {};
}

Lent ObjectSet::controlling_terminal(const schema::Process& process) const {
    // One that nobody has at this instant would be ours, and whoever is about to have it would be refused.
    const bool none = process.terminal < 0 || state_->others_terminals.contains(process.terminal);
    auto held = none ? Result<Lent>() : lend(process.terminal);
    return held ? std::move(*held) : Lent();
}

}  // namespace cairn::restart
