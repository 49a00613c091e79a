#include "restart/pages/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "common/image/format.h"
#include "common/image/hash.h"
#include "common/printable.h"
#include "restart/pages/identity.h"
#include "restart/pages/user_fault.h"

namespace cairn::restart::pages {
namespace {

constexpr int messages_at_once = 16;  // between two pieces of memory, so that these come in the end

struct Fault {
    SpaceId space;
    std::uint64_t address;
};

class Server {
  public:
    Server(const Work& work, const Log& log) : work_(work), log_(log), buffer_(image_max_run) {}

    // What is known from before: everything, if this server takes over.
    void recall() {
        log_.keep_if_read();
        for (std::uint32_t i = 0; i < log_.processes(); ++i) {
            Missing missing;
            const auto& runs = work_.processes[i].runs;
            for (std::uint32_t k = 0; k < runs.size(); ++k)
                missing.add(runs[k].address, {runs[k].address + runs[k].length, k, 0});
            spaces_[i] = std::move(missing);
        }
        for (const auto index : log_.history()) {
            const auto event = log_.event(index);
            apply_here(event, index);
            if (event.kind == Change::closed && index + 1 == log_.kept()) close_if_open(event.space);
        }
        for (std::uint32_t i = 0; i < log_.processes(); ++i) adopt(i);
        if (log_.kept() == log_.settled()) heed_births();
        // faults that were read and not answered: whoever is woken faults again
        for (const auto& [space, fd] : fds_) wake_all(fd);
    }

    // False when everything is in place.
    bool step() {
        for (std::uint32_t i = 0; i < log_.processes(); ++i) adopt(i);
        if (spaces_.empty()) return false;
        wait_for_messages();
        for (const auto& [space, fd] : std::map(fds_)) read_messages(space, fd, messages_at_once);
        if (log_.kept() != log_.settled() && !settle()) return true;
        answer();
        prefetch();
        close_complete();
        say_how_much_is_left();
        return true;
    }

    void watch(int parent) { parent_ = parent; }
    [[nodiscard]] bool parent_gone() const { return parent_gone_; }

  private:
    // --- spaces

    void adopt(std::uint32_t process) {
        const int fd = log_.descriptor(process).load();
        if (fd >= 0 && spaces_.contains(process)) fds_[process] = fd;
    }

    [[nodiscard]] const Served& process_of(SpaceId space) const {
        auto id = space;
        while (id >= log_.processes()) id = log_.event(id - log_.processes()).space;
        return work_.processes[id];
    }

    void apply_here(const Event& event, std::uint32_t index) {
        apply(event, spaces_);
        if (event.kind == Change::fork && spaces_.contains(event.child)) {
            fds_[event.child] = log_.child_descriptor(index);
            wake_all(fds_[event.child]);  // a server that has died may have read its faults
        }
        if (event.kind == Change::closed) fds_.erase(event.space);
    }

    void close_if_open(SpaceId space) {
        const int fd = space < log_.processes() ? log_.descriptor(space).load()
                                                : log_.child_descriptor(space - log_.processes());
        std::array<char, 64> name = {};
        const auto path = fmt::format("/proc/self/fd/{}", fd);
        if (::readlink(path.c_str(), name.data(), name.size() - 1) > 0 &&
            std::strcmp(name.data(), "anon_inode:[userfaultfd]") == 0)
            ::close(fd);
    }

    void finish(SpaceId space) {
        const auto found = fds_.find(space);
        const int fd = found == fds_.end() ? -1 : found->second;
        note({space, Change::closed});
        if (fd >= 0) ::close(fd);
    }

    void note(const Event& event) {
        if (!log_.add(event)) give_up("its memory changes too fast");
        apply_here(event, log_.kept() - 1);
    }

    void close_complete() {
        if (log_.kept() != log_.settled()) return;
        for (const auto& [space, missing] : Spaces(spaces_))
            if (missing.empty() && (fds_.contains(space) || space >= log_.processes())) finish(space);
    }

    // --- messages

    void wait_for_messages() {
        std::vector<pollfd> polled;
        for (const auto& [space, fd] : fds_) polled.push_back({fd, POLLIN, 0});
        polled.push_back({parent_, POLLIN, 0});
        const bool work_left = !fds_.empty();
        ::poll(polled.data(), polled.size(), work_left ? 0 : 10);
        if (polled.back().revents != 0) parent_gone_ = true;
    }

    // False: nothing was there.
    bool read_message(SpaceId space, int fd) {
        auto* message = log_.slot(space);
        if (message == nullptr) give_up("its memory changes too fast");
        const ssize_t got = ::read(fd, message, sizeof *message);
        if (got != static_cast<ssize_t>(sizeof *message)) return false;
        if (message->event != UFFD_EVENT_PAGEFAULT) {
            log_.keep();
            return true;
        }
        faults_.push_back({space, message->arg.pagefault.address / page * page});
        return true;
    }
    void read_messages(SpaceId space, int fd, int most) {
        for (int i = 0; i < most && read_message(space, fd); ++i) {
        }
    }

    // Brings what has been read into its order. False: a change is still under way; the pages of this process
    // can't be served meanwhile, the kernel says EAGAIN.
    bool settle() {
        std::map<SpaceId, int> fds = fds_;
        for (auto i = log_.settled(); i < log_.kept(); ++i)
            if (log_.event(i).kind == Change::fork) fds[log_.event(i).child] = log_.child_descriptor(i);
        std::vector<Event> batch;
        std::set<SpaceId> concerned;
        const auto look = [&] {
            batch.clear();
            concerned.clear();
            for (auto i = log_.settled(); i < log_.kept(); ++i) {
                batch.push_back(log_.event(i));
                concerned.insert(batch.back().space);
                if (batch.back().kind == Change::fork) concerned.insert(batch.back().child);
            }
        };
        look();
        for (const auto space : concerned) {
            const auto fd = fds.find(space);
            if (fd == fds.end()) continue;
            read_messages(space, fd->second, messages_at_once);
            if (probe(fd->second, page * 16) == Probe::changing) return false;
        }
        const auto seen = log_.kept();
        if (batch.size() != seen - log_.settled()) return false;  // more has come
        bool changing = false;
        const auto registered = [&](SpaceId space, std::uint64_t address) {
            const auto fd = fds.find(space);
            if (fd == fds.end()) return false;
            const auto answer = probe(fd->second, address);
            changing = changing || answer == Probe::changing;
            return answer == Probe::registered;
        };
        const auto order = settle_order(spaces_, batch, registered);
        for (const auto space : concerned)
            if (const auto fd = fds.find(space); fd != fds.end()) (void)registered(space, page * 16);
        if (changing) return false;
        if (!order)
            give_up(fmt::format(
                "several threads changed the same memory at once ({} changes), and what was missing "
                "there can't be told",
                batch.size()));
        const auto base = log_.settled();
        std::vector<std::uint32_t> indexes;
        for (const auto i : *order) indexes.push_back(base + static_cast<std::uint32_t>(i));
        log_.settle(indexes);
        for (const auto index : indexes) {
            apply_here(log_.event(index), index);
            // noted by a server that died before it could say that it is settled
            if (log_.event(index).kind == Change::closed) close_if_open(log_.event(index).space);
        }
        if (batch.size() > 1)
            for (const auto space : concerned) forget_unregistered(space);
        heed_births();
        return true;
    }

    // What no event tells of a birth. Whoever takes over from a server that died meanwhile does it again.
    void heed_births() {
        const auto end = log_.settled();
        for (auto index = log_.heeded().load(); index < end; ++index)
            if (const auto event = log_.event(index); event.kind == Change::fork) heed_wipe_on_fork(event);
        log_.heeded().store(log_.settled());
    }

    void forget_unregistered(SpaceId space) {
        if (!spaces_.contains(space) || !fds_.contains(space)) return;
        for (const auto& [start, piece] : Missing::Pieces(spaces_[space].pieces()))
            if (probe(fds_[space], start) == Probe::not_registered)
                note({space, Change::unmap, start, piece.end - start});
    }

    // A child finds zeros where its parent has said MADV_WIPEONFORK.
    void heed_wipe_on_fork(const Event& event) {
        if (event.space >= log_.processes() || !spaces_.contains(event.child)) return;
        for (const auto& [start, end] : wiped_on_fork(work_.processes[event.space].pid))
            note({event.child, Change::remove, start, end - start});
    }

    // --- pages

    enum class Done { yes, later, gone };

    void answer() {
        auto faults = std::exchange(faults_, {});
        for (const auto& fault : faults) {
            if (!spaces_.contains(fault.space) || !fds_.contains(fault.space)) continue;
            if (answer(fault) == Done::later) faults_.push_back(fault);
        }
    }

    Done answer(const Fault& fault) {
        const auto piece = spaces_[fault.space].find(fault.address);
        if (piece) return bring(fault.space, *piece, fault.address);
        const int fd = fds_[fault.space];
        uffdio_zeropage request = {{fault.address, page}, 0, 0};
        if (::ioctl(fd, UFFDIO_ZEROPAGE, &request) == 0) return Done::yes;
        if (errno == EAGAIN || errno == ENOMEM) return Done::later;
        if (errno == ESRCH) {
            finish(fault.space);
            return Done::gone;
        }
        wake(fd, fault.address, page);  // it is there, or nothing is mapped any more: the kernel decides anew
        return Done::yes;
    }

    // The page at `first`, then the rest of its piece.
    Done bring(SpaceId space, const std::pair<std::uint64_t, Piece>& found, std::uint64_t first) {
        const auto& [start, piece] = found;
        const auto& process = process_of(space);
        load(process, piece.run);
        const auto* data = buffer_.data() + piece.skip;
        auto done = copy(space, first, data + (first - start), page);
        if (done == Done::yes) done = copy(space, start, data, first - start);
        if (done == Done::yes)
            done = copy(space, first + page, data + (first + page - start), piece.end - first - page);
        return done;
    }

    void load(const Served& process, std::uint32_t index) {
        if (loaded_ == &process && loaded_run_ == index) return;
        loaded_ = nullptr;
        const auto& run = process.runs[index];
        for (std::uint64_t done = 0; done < run.length;) {
            const ssize_t got = ::pread(process.image_fd, buffer_.data() + done, run.length - done,
                                        static_cast<off_t>(run.offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0)
                give_up(fmt::format("{} can't be read at byte {}: {}", process.image, run.offset + done,
                                    got == 0 ? "it was cut" : std::strerror(errno)));
            done += static_cast<std::uint64_t>(got);
        }
        if (hash64(std::span(buffer_).first(run.length)) != run.hash)
            give_up(fmt::format(
                "{} is damaged (checksum of the pages for {:#x}, {} bytes at byte {}): take another "
                "generation",
                process.image, run.address, run.length, run.offset));
        loaded_ = &process;
        loaded_run_ = index;
    }

    Done copy(SpaceId space, std::uint64_t to, const std::uint8_t* from, std::uint64_t length) {
        const int fd = fds_[space];
        auto& missing = spaces_[space];
        while (length > 0) {
            uffdio_copy request = {to, reinterpret_cast<std::uint64_t>(from), length, 0, 0};
            const int result = ::ioctl(fd, UFFDIO_COPY, &request);
            const int why = result == 0 ? 0 : errno;
            std::uint64_t passed = request.copy > 0 ? static_cast<std::uint64_t>(request.copy) : 0;
            if (passed > 0) {
                missing.erase(to, to + passed);
            } else if (why == EEXIST) {
                passed = page;
                missing.erase(to, to + page);
                wake(fd, to, page);
            } else if (why == ENOENT) {
                while (passed < length && probe(fd, to + passed) == Probe::not_registered) passed += page;
                if (passed == 0) return Done::later;
                note({space, Change::unmap, to, passed});
                wake(fd, to, passed);
            } else if (why == ESRCH) {
                finish(space);
                return Done::gone;
            } else if (why == EAGAIN || why == EINTR) {
                return Done::later;
            } else if (why == ENOMEM) {
                ::usleep(1000);  // the kernel makes room, or ends somebody
                return Done::later;
            } else {
                give_up(fmt::format("pages can't be put in place: {}", std::strerror(why)));
            }
            to += passed;
            from += passed;
            length -= passed;
        }
        return Done::yes;
    }

    // The next piece of the next process, in turn.
    void prefetch() {
        if (fds_.empty()) return;
        auto turn = fds_.upper_bound(last_prefetched_);
        if (turn == fds_.end()) turn = fds_.begin();
        last_prefetched_ = turn->first;
        const auto space = turn->first;
        const auto piece = spaces_[space].next(cursor_[space]);
        if (!piece) return;
        cursor_[space] = piece->second.end;
        (void)bring(space, *piece, piece->first);
    }

    void say_how_much_is_left() {
        if (++steps_ % 64 != 1) return;
        std::uint64_t left = 0;
        for (const auto& [space, missing] : spaces_) left += missing.bytes();
        log_.bytes_left().store(left);
        const auto text = fmt::format("{:<20}", left >> 20);
        (void)!::pwrite(work_.lock, text.data(), text.size(), 0);
    }

    // --- the end

    // Nobody may go on with memory that isn't what it was.
    [[noreturn]] void give_up(const std::string& why) {
        fmt::print(
            stderr,
            "cairn restart: the programs are ended, because not all of their memory can be brought back: {}. "
            "Restart them again, with --eager\n",
            printable(why));
        log_.failed().store(true);
        for (int rounds = 0; rounds < 1000 && !fds_.empty(); ++rounds) {
            kill_programs();
            for (const auto& [space, fd] : std::map(fds_)) {
                uffd_msg ignored;
                while (::read(fd, &ignored, sizeof ignored) > 0)
                    if (ignored.event == UFFD_EVENT_FORK)
                        fds_[0x80000000u + ignored.arg.fork.ufd] = static_cast<int>(ignored.arg.fork.ufd);
                // whoever can't be named gets SIGBUS instead of a wrong page
                for (const auto& [start, piece] : spaces_[space].pieces())
                    poison(fd, start, piece.end - start);
                if (probe(fd, page * 16) == Probe::gone) fds_.erase(space);
            }
            ::usleep(10'000);
        }
        ::_exit(1);
    }

    void kill_programs() const {
        for (const auto& process : work_.processes)
            if (process.pid > 0) ::kill(process.pid, SIGKILL);
        for (const auto& each : work_.regions)
            for (const auto& slot : each.region->slots)
                if (slot.state.load() != SlotState::free) kill_member(slot.pid.load(), each.key);
    }

    // A slot says what its users like: who is killed has the region mapped.
    static void kill_member(pid_t pid, const FileKey& region) {
        if (pid <= 1) return;
        const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        const MappedAt at = find_mapping(pid, region);
        if (process && at.mapped == Mapped::yes && at.library)
            ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    }

    const Work& work_;
    const Log& log_;
    int parent_ = -1;
    bool parent_gone_ = false;
    Spaces spaces_;
    std::map<SpaceId, int> fds_;
    std::map<SpaceId, std::uint64_t> cursor_;
    SpaceId last_prefetched_ = 0;
    std::vector<Fault> faults_;
    schema::Bytes buffer_;
    const Served* loaded_ = nullptr;
    std::uint32_t loaded_run_ = 0;
    std::uint64_t steps_ = 0;
};

void settle_in(const char* name) {
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

namespace {

// Serves in a child; another one when that dies. Returns in the child, whose parent this is.
void guard(const Log& log) {
    Identity own = own_identity();
    log.guard().store(own);
    (void)log.server().compare_exchange_strong(own, 0);  // for the child
    for (;;) {
        const pid_t child = fork_with_descriptors();
        if (child == 0) return;
        if (child < 0) {
            ::usleep(10'000);
            continue;
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
    }
}

void exit_if_all_is_said(const Log& log) {
    if (log.failed().load()) ::_exit(1);
    if (log.finished().load()) ::_exit(0);
}

// Two must never serve at once: each would read events that the other needs, into the same slot. A child that
// was born to serve may run so late that somebody else, who found nobody alive, has begun already.
void become_server(const Log& log) {
    const Identity own = own_identity();
    for (;;) {
        Identity before = log.server().load();
        if (!lives(before) && log.server().compare_exchange_strong(before, own)) return;
        exit_if_all_is_said(log);
        ::usleep(1'000);
    }
}

}  // namespace

void serve(const Work& work, const Log& log) {
    settle_in("cairn-pages");
    for (;;) {
        const pid_t parent = ::getppid();
        const Fd watched(static_cast<int>(::syscall(SYS_pidfd_open, parent, 0)));
        become_server(log);
        Server server(work, log);
        server.watch(watched.get());
        server.recall();
        while (!server.parent_gone()) {
            if (server.step()) continue;
            log.finished().store(true);
            ::_exit(0);
        }
        guard(log);
    }
}

void keep(const Work& work, const Log& log) {
    settle_in("pages-keeper");
    for (int dead = 0; dead < 2;) {
        exit_if_all_is_said(log);
        ::usleep(20'000);
        dead = lives(log.server().load()) || lives(log.guard().load()) ? 0 : dead + 1;
    }
    guard(log);
    serve(work, log);
}

}  // namespace cairn::restart::pages
