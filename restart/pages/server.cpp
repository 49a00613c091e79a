#include "restart/pages/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "common/fd.h"
#include "restart/pages/bringers.h"
#include "restart/pages/changes.h"
#include "restart/pages/hold.h"
#include "restart/pages/user_fault.h"

namespace cairn::restart::pages {
namespace {

constexpr int most_waits = 300'000;  // 0.1 ms each: for a change that has begun and isn't told
// Pieces that each bringer has in turn before it is looked who has begun to wait, or changes memory.
constexpr std::size_t pieces_for_each = 2;

using SpaceId = std::uint32_t;

// An address space whose pages come lazily: a served process's, or a child's of one.
struct Space {
    int fd = -1;    // its userfaultfd; -1: not there yet
    pid_t pid = 0;  // 0: not known
    const Served* served = nullptr;
    Missing missing;
    ProgramAddress cursor;     // where the background goes on
    bool hurried = false;      // a page has come alone
    std::vector<Event> early;  // of a child, read before it was known what it misses
};

struct Fault {
    SpaceId space;
    ProgramAddress address;
};

class Server {
  public:
    Server(const Work& work, const Shared& shared) : work_(work), shared_(shared) {
        for (const auto& served : work.processes) {
            auto& space = spaces_[next_++];
            space.pid = served.pid;
            space.served = &served;
            for (std::uint32_t k = 0; k < served.runs.size(); ++k) {
                const ProgramAddress start(served.runs[k].address);
                space.missing.add(start, {start + served.runs[k].length, k, 0});
            }
        }
    }

    // False when everything is in place.
    bool step() {
        adopt();
        if (spaces_.empty()) return false;
        for (const auto id : with_messages()) listen(id);
        hold_.sweep();
        bring_pages();
        finish_complete();
        say_how_much_is_left();
        return true;
    }

  private:
    [[nodiscard]] bool tool_lives() const { return ::getppid() == work_.tool; }
    [[nodiscard]] bool in_background() const { return shared_.going().load() || !tool_lives(); }

    // Whoever isn't there yet when the tool dies, dies with it.
    void adopt() {
        const bool lives = tool_lives();
        for (SpaceId id = 0; id < work_.processes.size(); ++id)
            if (const auto found = spaces_.find(id); found != spaces_.end() && found->second.fd < 0) {
                found->second.fd = shared_.user_fault(id).load();
                if (found->second.fd < 0 && !lives) finish(id);
            }
    }

    void finish(SpaceId id) {
        const auto found = spaces_.find(id);
        if (found == spaces_.end()) return;
        if (found->second.fd >= 0) ::close(found->second.fd);
        spaces_.erase(found);
        std::erase_if(faults_, [id](const Fault& fault) { return fault.space == id; });
    }

    void finish_complete() {
        std::vector<SpaceId> complete;
        for (const auto& [id, space] : spaces_)
            if (space.fd >= 0 && space.missing.empty()) complete.push_back(id);
        for (const auto id : complete) finish(id);
    }

    std::vector<SpaceId> with_messages() {
        std::vector<pollfd> polled;
        std::vector<SpaceId> ids;
        for (const auto& [id, space] : spaces_) {
            if (space.fd < 0) continue;
            polled.push_back({space.fd, POLLIN, 0});
            ids.push_back(id);
        }
        ::poll(polled.data(), polled.size(), ids.empty() ? 10 : in_background() || !faults_.empty() ? 0 : 1);
        std::vector<SpaceId> ready;
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (polled[i].revents != 0) ready.push_back(ids[i]);
        return ready;
    }

    enum class Read { nothing, fault, event };
    Read read_message(SpaceId id, uffd_msg& message) {
        if (::read(spaces_.at(id).fd, &message, sizeof message) != static_cast<ssize_t>(sizeof message))
            return Read::nothing;
        if (message.event != UFFD_EVENT_PAGEFAULT) return Read::event;
        const ProgramAddress touched(message.arg.pagefault.address);
        faults_.push_back({id, touched - touched % page});
        return Read::fault;
    }

    // Faults are read at once. An event is read only when the thread that waits for that is held.
    void listen(SpaceId id) {
        if (!spaces_.contains(id)) return;
        uffd_msg message;
        for (auto waiting = faults_waiting(spaces_.at(id).fd); waiting > 0; --waiting) {
            switch (read_message(id, message)) {
                case Read::nothing:
                    return;
                case Read::fault:
                    break;
                case Read::event:  // a signal has taken the thread out of its fault just now
                    return follow_changes(id, &message);
            }
        }
        follow_changes(id, nullptr);
    }

    // All changes that are under way, until nobody makes one. `first`: has been read already.
    void follow_changes(SpaceId id, const uffd_msg* first) {
        Batch batch;
        const auto sharing = sharing_memory(spaces_.at(id).pid);
        if (first != nullptr) {
            batch.all_held = false;
            note(id, *first, batch);
        }
        for (int waits = 0;;) {
            const bool held = hold_.seize_changing(sharing);
            uffd_msg message;
            const auto read = read_message(id, message);
            if (read == Read::event) {
                batch.all_held = batch.all_held && held;
                note(id, message, batch);
            }
            if (read != Read::nothing) continue;
            const auto state = probe(spaces_.at(id).fd, anywhere);
            if (state == Probe::gone) {
                hold_.release();
                return finish(id);
            }
            if (state != Probe::changing) break;
            if (++waits == most_waits) give_up("a change of memory that has begun doesn't end");
            ::usleep(100);
        }
        apply_batch(id, batch);
        hold_.release();
    }

    struct Batch {
        std::vector<Event> events;
        std::vector<SpaceId> children;
        bool all_held = true;
    };

    void note(SpaceId id, const uffd_msg& message, Batch& batch) {
        auto event = change_in(message);
        if (event.kind == Change::fork) {
            event.child = next_++;
            auto& child = spaces_[event.child];
            child.fd = static_cast<int>(message.arg.fork.ufd);
            child.pid = batch.all_held ? hold_.forked() : 0;
            child.served = spaces_.at(id).served;
            if (child.pid > 0)
                if (const auto pidfd = ::syscall(SYS_pidfd_open, child.pid, 0); pidfd >= 0)
                    shared_.add_process(static_cast<int>(pidfd));
            batch.children.push_back(event.child);
        }
        batch.events.push_back(event);
    }

    void apply_batch(SpaceId id, const Batch& batch) {
        auto& space = spaces_.at(id);
        if (batch.events.empty()) return;
        if (!batch.all_held && order_matters(batch.events))
            give_up(fmt::format(
                "several threads changed memory at once ({} changes), and not all could be traced",
                batch.events.size()));
        const bool only_births = batch.children.size() == batch.events.size();
        for (const auto child : batch.children) be_born(space, child, batch.events, only_births);
        auto after = apply_all(space.missing, batch.events);
        if (!after) give_up_for_race();
        space.missing = std::move(*after);
    }

    void be_born(const Space& parent, SpaceId id, std::span<const Event> batch, bool only_births) {
        auto& child = spaces_.at(id);
        child.missing = parent.missing;
        if (!only_births) {
            auto missing = missing_at_birth(
                parent.missing, batch, [&](ProgramAddress address) { return was_born_with(id, address); },
                [&](ProgramAddress address) { return probe(parent.fd, address) != Probe::not_registered; });
            if (!missing) give_up_for_race();
            child.missing = std::move(*missing);
        }
        // Where its parent has said MADV_WIPEONFORK a child finds zeros; no event tells of it.
        for (const auto& [start, end] : wiped_on_fork(parent.pid)) child.missing.erase(start, end);
        for (const auto& event : std::exchange(child.early, {}))
            if (auto after = apply_all(child.missing, std::span(&event, 1)))
                child.missing = std::move(*after);
    }

    // What the child, which runs already, has changed itself was there when it was born.
    bool was_born_with(SpaceId id, ProgramAddress address) {
        auto& child = spaces_.at(id);
        for (int waits = 0; waits < most_waits; ++waits) {
            uffd_msg message;
            for (auto read = read_message(id, message); read != Read::nothing;
                 read = read_message(id, message)) {
                if (read == Read::event && message.event == UFFD_EVENT_FORK)
                    give_up("a process was born while others changed memory, and forked at once");
                if (read == Read::event) child.early.push_back(change_in(message));
            }
            for (const auto& event : child.early)
                if (event.from <= address && address < event.from + event.length) return true;
            const auto state = probe(child.fd, address);
            if (state != Probe::changing) return state == Probe::registered;
            ::usleep(100);
        }
        give_up("a change of memory that has begun doesn't end");
    }

    struct Ordered {
        SpaceId space;
        std::optional<Fault> fault;  // who waits for it; nothing: it is brought ahead
    };
    struct Orders {
        std::vector<Order> pieces;
        std::vector<Ordered> of;  // of each piece
    };

    // What programs wait for, as far as that can be brought at once, and if nobody else waits the next piece
    // of the background.
    void bring_pages() {
        Orders orders;
        std::vector<SpaceId> gone;  // until the bringers are done with their descriptors
        auto waiting = std::exchange(faults_, {});
        const bool many = waiting.size() > bringers_.count();
        for (const auto& fault : waiting) {
            const auto found = spaces_.find(fault.space);
            if (found == spaces_.end()) continue;
            auto& space = found->second;
            const auto piece = space.missing.find(fault.address);
            if (!piece) {
                const auto done = zero(space.fd, fault.address);
                if (done == Done::later) faults_.push_back(fault);
                if (done == Done::gone) gone.push_back(fault.space);
            } else if (orders.pieces.size() >= pieces_for_each * bringers_.count() ||
                       is_in(orders, fault.space, piece->first)) {
                faults_.push_back(fault);
            } else {
                add(orders, fault.space, *piece, fault.address);
                orders.of.back().fault = fault;
                // Where many wait, each gets the page that it waits for first, and soon; once, for the rest
                // of the piece has to be read again.
                orders.pieces.back().alone = many && !std::exchange(space.hurried, true);
                if (orders.pieces.back().alone) space.cursor = piece->first;
            }
        }
        if (in_background() && faults_.empty()) add_background(orders);
        const auto brought = bringers_.bring(orders.pieces);
        for (std::size_t i = 0; i < brought.size(); ++i) settle(orders.of[i], brought[i]);
        for (const auto space : gone) finish(space);
    }

    static bool is_in(const Orders& orders, SpaceId space, ProgramAddress start) {
        for (std::size_t i = 0; i < orders.of.size(); ++i)
            if (orders.of[i].space == space && orders.pieces[i].start == start) return true;
        return false;
    }

    void add(Orders& orders, SpaceId id, const std::pair<ProgramAddress, Piece>& piece,
             ProgramAddress first) const {
        const auto& space = spaces_.at(id);
        orders.pieces.push_back({space.fd, space.served, piece.first, first, piece.second});
        orders.of.push_back({id, {}});
    }

    // The next piece of the next process, in turn.
    void add_background(Orders& orders) {
        auto turn = spaces_.upper_bound(last_prefetched_);
        if (turn == spaces_.end()) turn = spaces_.begin();
        if (turn == spaces_.end()) return;
        last_prefetched_ = turn->first;
        auto& space = turn->second;
        const auto piece = space.missing.next(space.cursor);
        if (space.fd < 0 || !piece || is_in(orders, turn->first, piece->first)) return;
        space.cursor = piece->second.end;
        add(orders, turn->first, *piece, piece->first);
    }

    void settle(const Ordered& order, const Brought& brought) {
        const auto found = spaces_.find(order.space);
        if (found == spaces_.end()) return;
        for (const auto& [start, end] : brought.placed) found->second.missing.erase(start, end);
        if (!brought.problem.empty()) give_up(brought.problem);
        if (brought.done == Done::gone)
            finish(order.space);
        else if (brought.done == Done::later && order.fault)
            faults_.push_back(*order.fault);
    }

    // Where nothing is missing any more.
    static Done zero(int fd, ProgramAddress address) {
        uffdio_zeropage request = {{address.value(), page}, 0, 0};
        if (::ioctl(fd, UFFDIO_ZEROPAGE, &request) == 0) return Done::yes;
        if (errno == EAGAIN || errno == ENOMEM) return Done::later;
        if (errno == ESRCH) return Done::gone;
        // It is there, or nothing is mapped any more: the kernel decides anew.
        wake(fd, address, page);
        return Done::yes;
    }

    void say_how_much_is_left() {
        if (++steps_ % 64 != 1) return;
        std::uint64_t left = 0;
        for (const auto& [id, space] : spaces_) left += space.missing.bytes();
        const auto text = fmt::format("{:<20}", left >> 20);
        (void)!::pwrite(work_.lock, text.data(), text.size(), 0);
    }

    [[noreturn]] void give_up(const std::string& why) {
        hold_.release();
        end_programs(work_, shared_, why);
        ::_exit(1);
    }
    [[noreturn]] void give_up_for_race() {
        give_up("two threads moved or dropped the same memory at once, and who came first can't be told");
    }

    const Work& work_;
    const Shared& shared_;
    std::map<SpaceId, Space> spaces_;
    SpaceId next_ = 0, last_prefetched_ = 0;
    std::vector<Fault> faults_;
    Hold hold_;
    Bringers bringers_;
    std::uint64_t steps_ = 0;
};

void be_server(const char* name) {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::setsid();  // keys of the terminal are for the programs
    ::prctl(PR_SET_NAME, name);
    const Fd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    if (score) (void)!::write(score.get(), "-1000", 5);
}

}  // namespace

pid_t fork_with_descriptors() {
    return static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));
}

void serve(const Work& work, const Shared& shared) {
    be_server("cairn-pages");
    Server server(work, shared);
    while (server.step()) {
    }
    shared.finished().store(true);
    ::_exit(0);
}

void keep(const Work& work, const Shared& shared, pid_t server) {
    be_server("pages-keeper");
    const Fd watched(static_cast<int>(::syscall(SYS_pidfd_open, server, 0)));
    pollfd ended = {watched.get(), POLLIN, 0};
    while (watched && ::poll(&ended, 1, -1) < 1) {
    }
    if (!shared.finished().load()) end_programs(work, shared, "the page server was killed");
    ::_exit(0);
}

}  // namespace cairn::restart::pages
