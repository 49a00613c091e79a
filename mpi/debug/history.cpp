#include "mpi/debug/history.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "mpi/debug/confined.h"

namespace cairn::mpi::debug {

volatile std::sig_atomic_t interrupted = 0;

namespace {

double clock_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A third of the share that the job's session has, where each has one of its own (autogroups, sched(7)). Not
// less: an MPI waits by looking again and again, and leaves no processor idle. An image of it is in a session
// of its own, and has a full share when it comes back.
void make_way(pid_t pid) {
    const Fd file(::open(fmt::format("/proc/{}/autogroup", pid).c_str(), O_WRONLY | O_CLOEXEC));
    if (file) static_cast<void>(!::write(file.get(), "5", 1));
}

// In the child: becomes the program.
[[noreturn]] void become(const tool::Launch& launch, int socket, int out, int error, pid_t parent) {
    ::setpgid(0, 0);  // an interrupt at the terminal is for the debugger
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != parent) ::_exit(0);
    // Addresses are the same each time it is started, where that is allowed.
    const int before = ::personality(0xffffffff);
    if (before >= 0) ::personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE);
    const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(nothing.get(), STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(error, STDERR_FILENO);
    ::fcntl(socket, F_SETFD, 0);
    ::setenv(socket_variable, std::to_string(socket).c_str(), 1);
    // Of Fortran's output, too, each line is to be seen when it is written.
    ::setenv("GFORTRAN_UNBUFFERED_PRECONNECTED", "y", 0);
    if (!launch.working_folder.empty() && ::chdir(launch.working_folder.c_str()) != 0) {
        std::perror(launch.working_folder.c_str());
        ::_exit(static_cast<int>(ExitCode::failed));
    }
    const auto failed = tool::run(launch);
    if (!failed) fmt::print(stderr, "cairn mpi: {}\n", failed.error().what);
    ::_exit(static_cast<int>(ExitCode::failed));
}

}  // namespace

// Its first process, which has said nothing yet.
Result<> History::begin_program(Checkpoint& first) {
    int socket[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socket) != 0) return fail_errno("a socket");
    Fd ours(socket[0]);
    Fd theirs(socket[1]);
    Fd ends[2];
    for (int i = 0; i < 2; ++i) {
        int pipe[2];
        if (::pipe2(pipe, O_CLOEXEC) != 0) return fail_errno("a pipe");
        output_[i].reset(pipe[0]);
        ends[i].reset(pipe[1]);
        ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    }
    if (images_ != nullptr) {
        // All that is kept of this rank goes back to the image of its beginning.
        const Spot beginning = images_->store().beginning(rank_);
        if (const Image* image = images_->store().last(rank_, beginning)) {
            auto back = bring_back(*image);
            if (back) {
                first = std::move(*back);
                if (bounds_.make_way && ::getsid(first.process.pid()) != ::getsid(0))
                    make_way(first.process.pid());
                return {};
            }
            if (interrupted != 0 || beginning != Spot{}) return std::unexpected(std::move(back).error());
        }
        if (beginning != Spot{})
            return fail_code(ExitCode::damaged,
                             "rank {}: the image of where its record begins isn't there, and what was before "
                             "has been removed (cairn mpi trim)",
                             rank_);
    }
    tool::Launch launch = launch_;
    if (images_ != nullptr && images_->making()) {
        first.session = TRY(images_->session());
        const auto words = images_->launch_words(first.session);
        launch.command.insert(launch.command.begin(), words.begin(), words.end());
        launch.variables.push_back(images_->folder_of_sessions());
    }
    std::fflush(nullptr);
    std::string below;
    for (const auto& [key, value] : launch.variables)
        if (key == confined_variable) below = value;
    const pid_t self = ::getpid(), pid = ::fork();
    if (pid < 0) return fail_errno("starting rank {}", rank_);
    if (pid == 0) {
        if (bounds_.make_way && ::setsid() > 0) make_way(::getpid());
        if (!below.empty() && !confine(below.c_str())) {
            std::perror("cairn mpi: keeping it from writing to files");
            ::_exit(static_cast<int>(ExitCode::failed));
        }
        become(launch, theirs.get(), ends[0].get(), ends[1].get(), self);
    }
    first.process = RankProcess(pid, std::move(ours));
    return {};
}

Result<> History::start() {
    Checkpoint first;
    CHECK_OK(begin_program(first));
    auto message = TRY(hear(first));
    first.report = message.report;
    if (!message.text.empty()) show_(rank_, true, message.text);
    // In the first process the MPI's own threads run on, and change now and then what a copy would have. One
    // copy, in which there are none, is the beginning of all others.
    auto copy = TRY(fork(first));
    checkpoints_.push_back(std::move(copy));
    save_one();
    return {};
}

Result<History::Checkpoint> History::bring_back(const Image& image) {
    auto back = images_->bring_back(image, output_);
    if (!back) {
        if (interrupted == 0) show_(rank_, true, fmt::format("cairn mpi: {}\n", back.error().what));
        return std::unexpected(std::move(back).error());
    }
    return Checkpoint{.process = std::move(back->process),
                      .spot = image.spot,
                      .report = {},
                      .at = image.at,
                      .written = image.written,
                      .memory = 0,
                      .session = back->session};
}

// One that spares a good part of the way becomes a checkpoint; of those that can't be brought back the one
// before is tried.
void History::look_for_image(const Spot& to) {
    while (images_ != nullptr && interrupted == 0) {
        const Checkpoint& nearest = last_before(to);
        const bool lives = live_.process.there() && live_.spot <= to && nearest.spot < live_.spot;
        const Checkpoint& known = lives ? live_ : nearest;
        const Image* found = images_->store().last(rank_, to);
        if (found == nullptr || found->spot <= known.spot || found->at - known.at < interval() / 2) return;
        const Image image = *found;
        auto back = bring_back(image);
        if (!back) continue;
        auto message = hear(*back);
        if (!message) return;
        back->report = message->report;
        // It is a member of its session; one copy, which isn't, is kept.
        auto copy = fork(*back);
        if (!copy) return;
        show_(rank_, true,
              fmt::format("cairn mpi: from the image behind event {}; what was printed before isn't shown\n",
                          image.event));
        return keep(std::move(*copy));
    }
}

// Of what stands as a checkpoint, whenever it was taken: while one is written no other is begun.
void History::save_one() {
    if (images_ == nullptr || !images_->making()) return;
    const auto found = std::ranges::find_if(checkpoints_, [this](const Checkpoint& each) {
        return !each.session.empty() && images_->wants(rank_, each.spot, each.at);
    });
    if (found != checkpoints_.end()) static_cast<void>(begin_image(*found));
}

Result<> History::begin_image(const Checkpoint& of) {
    const auto name = TRY(Images::name());
    CHECK_OK(of.process.ask({.ask = Ask::image, .name = {name[0], name[1]}}));
    auto message = TRY(of.process.hear());
    if (message.report.pid <= 0)
        return fail("rank {} can't be copied: no more processes, or no memory", rank_);
    images_->make(RankProcess(message.report.pid, std::move(message.descriptor)),
                  {.rank = rank_,
                   .spot = of.spot,
                   .event = of.report.event,
                   .at = of.at,
                   .written = of.written,
                   .name = name,
                   .bytes = 0,
                   .folder = ""},
                  of.session);
    return {};
}

Result<> History::save() {
    const Checkpoint copy = TRY(fork(live_));
    CHECK_OK(begin_image(copy));
    return images_->finish(rank_, copy.spot);
}

void History::drain(Checkpoint& from) {
    char text[16384];
    for (int i = 0; i < 2; ++i)
        for (ssize_t size = 0; (size = ::read(output_[i].get(), text, sizeof text)) > 0;) {
            const auto bytes = static_cast<std::uint64_t>(size);
            const auto which = static_cast<std::size_t>(i);
            const std::uint64_t begin = from.written[which], end = begin + bytes;
            from.written[which] = end;
            if (end <= shown_[which]) continue;
            const std::uint64_t skipped = shown_[which] > begin ? shown_[which] - begin : 0;
            show_(rank_, i == 1, std::string(text + skipped, static_cast<std::size_t>(bytes - skipped)));
            shown_[which] = end;
        }
}

// Takes what it prints meanwhile, which could fill the pipe.
Result<RankProcess::Message> History::hear(Checkpoint& from) {
    for (;;) {
        pollfd waiting[3] = {
            {from.process.socket(), POLLIN, 0}, {output_[0].get(), POLLIN, 0}, {output_[1].get(), POLLIN, 0}};
        // A pipe without writers is always ready.
        const int ready = ::poll(waiting, 3, -1);
        if (interrupted != 0) return fail("interrupted");
        if (ready < 0 && errno != EINTR) return fail_errno("waiting for rank {}", rank_);
        drain(from);
        if ((waiting[0].revents & (POLLIN | POLLHUP)) == 0) continue;
        auto message = from.process.hear();
        if (message) return message;
        const pid_t pid = from.process.pid();
        const std::string how = from.process.how_it_ended();
        drain(from);
        return fail_code(ExitCode::refused, "rank {} {}, started behind event {} (process {})", rank_, how,
                         from.report.event, pid);
    }
}

Result<History::Checkpoint> History::fork(const Checkpoint& from) {
    CHECK_OK(from.process.ask(Command{.ask = Ask::fork}));
    auto message = TRY(from.process.hear());
    if (message.report.pid <= 0)
        return fail("rank {} can't be copied: no more processes, or no memory", rank_);
    longest_fork_ = std::max(longest_fork_, static_cast<double>(message.report.fork_ns) * 1e-9);
    Checkpoint copy{.process = RankProcess(message.report.pid, std::move(message.descriptor)),
                    .spot = from.spot,
                    .report = {},
                    .at = from.at,
                    .written = from.written,
                    .memory = 0,
                    .session = from.session};
    auto first = TRY(copy.process.hear());
    copy.report = first.report;
    return copy;
}

Result<RankProcess> History::copy_of(const Checkpoint& checkpoint) {
    auto copy = TRY(fork(checkpoint));
    return std::move(copy.process);
}

Result<RankProcess> History::copy() {
    return copy_of(live_);
}

Result<RankProcess> History::straight() {
    Checkpoint first = TRY(fork(checkpoints_.front()));
    if (live_.spot == first.spot) return std::move(first.process);
    CHECK_OK(first.process.ask(
        {.ask = Ask::run, .within = live_.spot.within ? 1U : 0U, .position = live_.spot.position}));
    CHECK_OK(error_of(hear(first)));
    return std::move(first.process);
}

Result<History::End> History::end(std::uint64_t events) {
    if (checkpoints_.empty()) CHECK_OK(start());
    const Checkpoint& last = last_before({events, true});
    Checkpoint copy = TRY(fork(live_.process.there() && last.spot < live_.spot ? live_ : last));
    CHECK_OK(copy.process.ask(Command{.ask = Ask::run, .within = 0, .position = ~std::uint64_t{0}}));
    auto message = hear(copy);
    if (!message) {
        const std::string& what = message.error().what;
        return End{Why::there, what.substr(0, what.rfind(", started"))};
    }
    return End{message->report.why, message->text};
}

Result<History::Way> History::way_of(Checkpoint& copy, Spot to) {
    Way way;
    const Show show =
        std::exchange(show_, [&way](int, bool, const std::string& text) { way.printed += text; });
    const auto shown = std::exchange(shown_, {});
    copy.written = {};
    Result<RankProcess::Message> message = fail("not asked");
    if (auto asked =
            copy.process.ask({.ask = Ask::run, .within = to.within ? 1U : 0U, .position = to.position});
        !asked)
        message = std::unexpected(asked.error());
    else
        message = hear(copy);
    show_ = show;
    shown_ = shown;
    if (interrupted != 0) return fail("interrupted");
    if (message) {
        way.report = message->report;
        way.end = {message->report.why, message->text};
    } else {
        const std::string& what = message.error().what;
        way.end = {Why::there, what.substr(0, what.rfind(", started"))};
    }
    return way;
}

Result<std::vector<std::string>> History::stack() {
    const auto copied = TRY(fork(live_));
    auto seen = TRY(seen_of(copied));
    return std::move(seen.stack);
}

// So that a way back from anywhere takes at most what it may: half of it, since what is run again is run with
// checkpoints and copies. What forks take stays below a twentieth.
double History::interval() const {
    return std::max(bounds_.back_within / 2, longest_fork_ * 20);
}

// There is always the initial state.
const History::Checkpoint& History::last_before(const Spot& spot) const {
    const Checkpoint* last = &checkpoints_.front();
    for (const Checkpoint& each : checkpoints_)
        if (each.spot <= spot) last = &each;
    return *last;
}

void History::keep(Checkpoint checkpoint) {
    const auto after =
        std::upper_bound(checkpoints_.begin(), checkpoints_.end(), checkpoint.spot,
                         [](const Spot& spot, const Checkpoint& each) { return spot < each.spot; });
    if (after != checkpoints_.begin() && std::prev(after)->spot == checkpoint.spot) return;
    const auto added = checkpoints_.insert(after, std::move(checkpoint));
    look_at_memory(static_cast<std::size_t>(added - checkpoints_.begin()));
    thin_out(added->spot);
}

// Behind a change of what is kept: of the checkpoints around it always, and of the others, in turn, as far as
// looking takes no more than a twentieth of the time.
void History::look_at_memory(std::size_t changed) {
    if (bounds_.memory == 0) return;
    const auto look = [](Checkpoint& at) { at.memory = in_memory(at.process.pid()).share; };
    const double began = clock_now(), until = began + (began - looked_at_) / 20;
    for (std::size_t i = changed > 0 ? changed - 1 : 0; i < checkpoints_.size() && i <= changed + 1; ++i)
        look(checkpoints_[i]);
    for (std::size_t i = 0; i < checkpoints_.size() && clock_now() < until; ++i)
        look(checkpoints_[looked_ = (looked_ + 1) % checkpoints_.size()]);
    // What it has for itself is the program's. The rest is there because of the checkpoints as soon as the
    // program writes to it.
    const InMemory live = live_.process.there() ? in_memory(live_.process.pid()) : InMemory();
    live_.memory = live.share > live.own ? live.share - live.own : 0;
    looked_at_ = clock_now();
}

bool History::too_many() const {
    if (checkpoints_.size() > bounds_.checkpoints + std::size_t{1}) return true;
    if (bounds_.memory == 0 || checkpoints_.size() <= 2) return false;
    std::uint64_t memory = live_.memory;
    for (const Checkpoint& each : checkpoints_) memory += each.memory;
    return memory > bounds_.memory;
}

// Dense near where the rank stands, sparser the farther away: the one goes that leaves the smallest gap, held
// against how far away it is. Not the one that has just been added: at the end of all it leaves half as large
// a gap as the others do, and would always be the one.
void History::thin_out(const Spot added) {
    while (too_many()) {
        std::size_t worst = 0;
        double least = 0;
        for (std::size_t i = 1; i < checkpoints_.size(); ++i) {
            if (checkpoints_[i].spot == added && checkpoints_.size() > 2) continue;
            const double next = i + 1 < checkpoints_.size() ? checkpoints_[i + 1].at : checkpoints_[i].at;
            const double gap = next - checkpoints_[i - 1].at;
            const double score = gap / (std::abs(live_.at - checkpoints_[i].at) + interval());
            if (worst == 0 || score < least) {
                worst = i;
                least = score;
            }
        }
        checkpoints_.erase(checkpoints_.begin() + static_cast<std::ptrdiff_t>(worst));
        look_at_memory(worst);
    }
}

// It stands still in the end, or is no more.
Result<> History::run(Spot to, double pace) {
    auto done = run_with_checkpoints(to, pace);
    if (!done && live_.report.why != Why::departed) live_ = Checkpoint();
    return done;
}

// Whoever has come somewhere will go back a little from there. So the last checkpoints on the way are at half
// of the way that is left, and half of that again, as far as that is worth a copy: a step back from the end
// is then a short run.
double History::next_checkpoint(Spot to, double pace) const {
    constexpr double shortest = 1.0 / 32;
    const double left = pace * static_cast<double>(to.position - live_.spot.position);
    const double worth = std::max(longest_fork_ * 10, bounds_.back_within * shortest);
    return left / 2 < worth ? interval() : std::min(left / 2, interval());
}

Result<> History::run_with_checkpoints(Spot to, double pace) {
    const auto nanoseconds = [](double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); };
    const double began = clock_now(), at = live_.at;
    const std::uint64_t from = live_.spot.position;
    // Of the last that was taken, whether it is still there or not: else one would be taken behind each call
    // when there is room for no more.
    double last_at = last_before(live_.spot).at;
    std::uint64_t last_event = last_before(live_.spot).report.event;
    const auto order = [&] {
        return Command{.ask = Ask::run,
                       .within = to.within ? 1U : 0U,
                       .position = to.position,
                       .interval_ns = bounds_.checkpoints > 0 ? nanoseconds(next_checkpoint(to, pace)) : 0,
                       .elapsed_ns = nanoseconds(std::max(live_.at - last_at, 0.0)),
                       .every = bounds_.every,
                       .last = last_event};
    };
    if (!std::exchange(on_its_way_, false)) CHECK_OK(live_.process.ask(order()));
    for (;;) {
        auto message = TRY(hear(live_));
        live_.at = at + clock_now() - began;
        live_.spot = {message.report.position, message.report.within != 0};
        if (message.report.says == Says::checkpoint) {
            if (live_.spot.position > from)
                pace = (live_.at - at) / static_cast<double>(live_.spot.position - from);
            longest_fork_ = std::max(longest_fork_, static_cast<double>(message.report.fork_ns) * 1e-9);
            ++taken_;
            last_at = live_.at;
            last_event = message.report.event;
            if (message.report.pid > 0) {
                Checkpoint taken{.process = RankProcess(message.report.pid, std::move(message.descriptor)),
                                 .spot = live_.spot,
                                 .report = {},
                                 .at = live_.at,
                                 .written = live_.written,
                                 .memory = 0,
                                 .session = live_.session};
                const auto first = TRY(taken.process.hear());
                taken.report = first.report;
                keep(std::move(taken));
                save_one();
            }
            CHECK_OK(live_.process.ask(order()));
            continue;
        }
        live_.report = message.report;
        if (!message.text.empty()) show_(rank_, true, message.text);
        if (message.report.why == Why::departed)
            return fail_code(ExitCode::refused, "rank {} can't go on alone behind event {}", rank_,
                             message.report.event);
        return {};
    }
}

// As near as it can be without running. Returns about how many seconds an event of the trace takes from there
// on; 0: that isn't known.
Result<double> History::stand_before(Spot to) {
    if (checkpoints_.empty()) CHECK_OK(start());
    save_one();
    if (live_.process.there() && live_.spot == to) return 0;
    look_for_image(to);
    const Checkpoint& nearest = last_before(to);
    if (live_.process.there() && live_.spot <= to && nearest.spot <= live_.spot) return 0;
    auto copy = TRY(fork(nearest));
    std::swap(copy, live_);
    double pace = 0;
    if (copy.process.there() && to < copy.spot)
        pace = (copy.at - live_.at) / static_cast<double>(copy.spot.position - live_.spot.position);
    // Where it was may be gone to again.
    if (copy.process.there() && copy.report.other_threads == 0) {
        const Checkpoint& last = last_before(copy.spot);
        const bool many = bounds_.every != 0 && copy.report.event - last.report.event >= bounds_.every;
        if (many || copy.at - last.at > interval() / 4) keep(std::move(copy));
    }
    return pace;
}

Result<> History::set_out(Spot to) {
    CHECK_OK(error_of(stand_before(to)));
    if (live_.spot == to) return {};
    CHECK_OK(live_.process.ask({.ask = Ask::run, .within = to.within ? 1U : 0U, .position = to.position}));
    on_its_way_ = true;
    return {};
}

Result<> History::go(Spot to) {
    double pace = on_its_way_ ? 0 : TRY(stand_before(to));
    if (!on_its_way_ && live_.spot == to) return {};
    if (pace == 0 && live_.spot.position > 0) pace = live_.at / static_cast<double>(live_.spot.position);
    return run(to, pace);
}

}  // namespace cairn::mpi::debug
