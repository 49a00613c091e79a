// A namespace of the group's own is made by a process that is in no other one than it has to be in, and lives
// only until the tool has a descriptor of it.
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "common/proc.h"
#include "resources/namespace/restore.h"

namespace cairn::restart {
namespace {

// What the process that makes it says, by its pipe.
struct Said {
    std::int32_t problem = 0;  // errno
    std::int32_t pid = 0;      // of who is in it
    char what[512] = {};
};

class Maker {
  public:
    Maker(int to, int owner, std::vector<int> shown, const schema::Namespace& saved,
          const schema::OwnNamespace& own)
        : to_(to), owner_(owner), shown_(std::move(shown)), saved_(saved), own_(own) {}

    [[noreturn]] void run() {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::prctl(PR_SET_NAME, "cairn-namespace");
        if (saved_.type == schema::NamespaceType::user) become_creator();
        if (owner_ >= 0) must("setns (user)", ::setns(owner_, CLONE_NEWUSER));
        for (const int space : shown_) must("setns", ::setns(space, 0));
        if (saved_.type == schema::NamespaceType::user) {
            make_users();
        } else {
            must("unshare", ::unshare(static_cast<int>(saved_.type)));
            furnish();
            say({0, ::getpid(), {}});
        }
        for (;;) ::pause();
    }

  private:
    void say(const Said& said) const { (void)!::write(to_, &said, sizeof said); }

    void must(const char* what, long result) const {
        if (result < 0) give_up(what, errno);
    }

    [[noreturn]] void give_up(const std::string& what, int problem) const {
        Said said{problem, 0, {}};
        std::strncpy(said.what, what.c_str(), sizeof said.what - 1);
        say(said);
        ::_exit(1);
    }

    // Whoever makes it has all rights in it as long as he is outside (user_namespaces(7)).
    void become_creator() const {
        if (::geteuid() == own_.creator) return;
        must("prctl", ::prctl(PR_SET_KEEPCAPS, 1));
        must("becoming the user who had made it", ::setresuid(own_.creator, own_.creator, own_.creator));
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct data[2]{};
        must("capget", ::syscall(SYS_capget, &header, data));
        for (auto& each : data) each.effective = each.permitted;
        must("capset", ::syscall(SYS_capset, &header, data));
        ::prctl(PR_SET_DUMPABLE, 1);
    }

    // Maps are written from outside: in it nobody has a right to more than himself.
    void make_users() const {
        int ends[2];
        must("pipe", ::pipe2(ends, O_CLOEXEC));
        const pid_t inside = ::fork();
        must("fork", inside);
        if (inside == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            must("unshare (user)", ::unshare(CLONE_NEWUSER));
            ::prctl(PR_SET_DUMPABLE, 1);
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the new rights have taken it away
            (void)!::write(ends[1], "x", 1);
            for (;;) ::pause();
        }
        ::close(ends[1]);
        char byte = 0;
        if (::read(ends[0], &byte, 1) != 1) ::_exit(1);
        if (!own_.set_groups) write_map(inside, "setgroups", "deny");
        write_map(inside, "uid_map", own_.uid_map);
        write_map(inside, "gid_map", own_.gid_map);
        say({0, inside, {}});
    }

    // More than one's own user is given to an ordinary one by newuidmap(1) and newgidmap(1).
    void write_map(pid_t inside, const char* file, const std::string& text) const {
        if (text.empty()) return;
        const std::string path = fmt::format("/proc/{}/{}", inside, file);
        const Fd map(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
        if (map && ::write(map.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
        const int problem = errno;
        if (problem == EPERM && map_by_helper(inside, file, text)) return;
        errno = problem;
        must(file, -1);
    }

    static bool map_by_helper(pid_t inside, const std::string& file, const std::string& text) {
        if (!file.ends_with("_map")) return false;
        std::vector<std::string> words{"new" + file.substr(0, 3) + "map", fmt::format("{}", inside)};
        std::istringstream numbers(text);
        for (std::string word; numbers >> word;) words.push_back(word);
        std::vector<char*> arguments;
        for (auto& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        const pid_t helper = ::fork();
        if (helper == 0) {
            ::execvp(arguments[0], arguments.data());
            ::_exit(127);
        }
        int status = 0;
        return helper > 0 && ::waitpid(helper, &status, 0) == helper && status == 0;
    }

    void furnish() const {
        if (saved_.type == schema::NamespaceType::uts) {
            must("sethostname", ::sethostname(own_.host_name.data(), own_.host_name.size()));
            must("setdomainname", ::setdomainname(own_.domain.data(), own_.domain.size()));
        } else if (saved_.type == schema::NamespaceType::net && own_.loopback_up) {
            const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
            ifreq wanted{};
            std::strcpy(wanted.ifr_name, "lo");
            must("lo", ::ioctl(any.get(), SIOCGIFFLAGS, &wanted));
            wanted.ifr_flags |= IFF_UP;
            must("lo", ::ioctl(any.get(), SIOCSIFFLAGS, &wanted));
        } else if (saved_.type == schema::NamespaceType::time) {
            set_clocks();
        } else if (saved_.type == schema::NamespaceType::mnt) {
            if (auto built = build_mounts(own_.mounts); !built)
                give_up(built.error().what, built.error().number == 0 ? EINVAL : built.error().number);
        }
    }

    // It is in the time namespace that all programs will be in, whose offsets the new one has begun with.
    void set_clocks() const {
        auto offsets = proc::clock_offsets("self");
        const auto lead = own_.clocks.value_or(schema::ClockLead{});
        offsets.monotonic += lead.monotonic;
        offsets.boottime += lead.boottime;
        const auto text = proc::offsets_text(offsets);
        ::prctl(PR_SET_DUMPABLE, 1);  // the file is the user's
        const Fd file(::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC));
        must("timens_offsets", file.get());
        must("timens_offsets (root needs CAP_SYS_TIME for it)",
             ::write(file.get(), text.data(), text.size()));
    }

    int to_, owner_;
    std::vector<int> shown_;
    const schema::Namespace& saved_;
    const schema::OwnNamespace& own_;
};

Result<MadeNamespace> descriptor_of(int from, schema::NamespaceType type) {
    Said said;
    if (::read(from, &said, sizeof said) != static_cast<ssize_t>(sizeof said))
        return fail("the process that was to make it has died");
    if (said.problem != 0)
        return fail_code(ExitCode::refused, "{}: {}{}", said.what, std::strerror(said.problem),
                         said.problem == EPERM ? "; restart as root, or as the user who had made it" : "");
    MadeNamespace made;
    const bool of_children = type == schema::NamespaceType::time;  // nobody but these is ever in a new one
    const std::string path =
        fmt::format("/proc/{}/ns/{}{}", said.pid, schema::name_of(type), of_children ? "_for_children" : "");
    made.space.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!made.space) return fail_errno("{}", path);
    if (type != schema::NamespaceType::mnt) return made;
    const std::string root = fmt::format("/proc/{}/root", said.pid);
    made.root.reset(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!made.root) return fail_errno("{}", root);
    return made;
}

}  // namespace

Result<MadeNamespace> make_namespace(const schema::Namespace& saved, const schema::OwnNamespace& own,
                                     int owner, std::vector<int> shown) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
    const Fd from(ends[0]);
    Fd to(ends[1]);
    const pid_t maker = ::fork();
    if (maker < 0) return fail_errno("fork");
    if (maker == 0) Maker(to.get(), owner, std::move(shown), saved, own).run();
    to.reset();
    auto made = descriptor_of(from.get(), saved.type);
    ::kill(maker, SIGKILL);
    ::waitpid(maker, nullptr, __WALL);
    return made;
}

}  // namespace cairn::restart
