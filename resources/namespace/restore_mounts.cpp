// A mount namespace of the group's own: it begins as a copy of the tool's, and is changed into what it was.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <ranges>
#include <set>
#include <sstream>

#include "common/proc.h"
#include "resources/namespace/restore.h"
#include "resources/namespace/schema_mounts.h"

namespace cairn::restart {
namespace {

// Where a root folder that isn't the tool's is built, next to the old root.
constexpr const char* stage = "/tmp";
constexpr const char* new_root = "/new";
constexpr const char* old_root = "/old";

// <linux/mount.h>, <fcntl.h>: OPEN_TREE_CLONE, AT_RECURSIVE, AT_EMPTY_PATH; MOVE_MOUNT_F_EMPTY_PATH.
constexpr unsigned tree_clone = 1, tree_recursive = 0x8000, tree_empty_path = 0x1000, move_empty_path = 4;

unsigned long flags_of(const std::string& options) {
    unsigned long flags = 0;
    std::istringstream words(options);
    for (std::string word; std::getline(words, word, ',');)
        for (const auto& [name, flag] : {std::pair{"ro", MS_RDONLY},
                                         {"nosuid", MS_NOSUID},
                                         {"nodev", MS_NODEV},
                                         {"noexec", MS_NOEXEC},
                                         {"noatime", MS_NOATIME},
                                         {"nodiratime", MS_NODIRATIME},
                                         {"relatime", MS_RELATIME}})
            if (word == name) flags |= static_cast<unsigned long>(flag);
    return flags;
}

// With the copy that the namespace began with, or with a folder above it.
bool came_with_another(const schema::Mount& mount) {
    return mount.inherited || mount.along.value_or(false);
}

class Builder {
  public:
    explicit Builder(const std::vector<schema::Mount>& all) {
        for (const auto& each : all) {
            // In that proc nobody sees what one of these hides of another.
            const auto hiding = [&](const schema::Mount& other) {
                return &other > &each && is_from_outside(each) && is_from_outside(other) &&
                       schema::is_below(each.point, other.point);
            };
            if (!schema::comes_late(all, each))
                wanted_.push_back(each);
            else if (std::ranges::none_of(all, hiding))
                late_.push_back(each);
        }
    }

    // Where proc isn't seen in a mount namespace of a user namespace, none may be mounted there
    // (mount_too_revealing(), fs/namespace.c): it is until the programs' own is there.
    Result<> show_proc_until_then() {
        const bool shown =
            std::ranges::any_of(wanted_, [](const schema::Mount& each) { return each.outside == "/proc"; });
        for (const auto& each : late_)
            if (each.pids && each.inside.empty() && !shown)
                CHECK_OK(mount(schema::joined(old_, "/proc").c_str(), inside(each.point), nullptr,
                               MS_BIND | MS_REC, nullptr, each.point));
        return {};
    }

    // What is mounted in that proc from outside is there until then, too: where it comes from is out of reach
    // when the root folder has been changed. Sandboxes hide parts of proc so (/dev/null on /proc/kcore).
    Result<> show_outside_until_then() {
        for (const auto& each : late_)
            if (is_from_outside(each))
                CHECK_OK(bind(outside_now(each.outside), inside(each.point), each.point));
        return {};
    }

    static bool is_from_outside(const schema::Mount& each) {
        return !each.pids && !each.outside.empty() && each.inside.empty();
    }

    // Mounts are listed in the order of their making (since Linux 6.8): these are made here.
    Result<> take_what_is_from_outside() {
        for (const auto& each : late_) {
            if (!is_from_outside(each)) continue;
            Fd tree(static_cast<int>(::syscall(SYS_open_tree, AT_FDCWD, each.point.c_str(),
                                               tree_clone | tree_recursive | O_CLOEXEC)));
            if (!tree) return fail_errno("{}", each.point);
            trees_.emplace(each.point, std::move(tree));
        }
        for (const auto& each : std::ranges::reverse_view(late_))
            if (is_from_outside(each) && ::umount2(each.point.c_str(), MNT_DETACH) != 0)
                return fail_errno("{}", each.point);
        return {};
    }

    Result<> run_late() {
        CHECK_OK(take_what_is_from_outside());
        const bool shown =
            std::ranges::any_of(wanted_, [](const schema::Mount& each) { return each.outside == "/proc"; });
        wanted_ = std::move(late_);
        for (const auto& each : wanted_)
            CHECK_OK(each.pids && each.inside.empty() ? put_proc(each, !shown) : put(each));
        return set_flags_of_the_rest();
    }

    Result<> run() {
        // What is mounted here must not be mounted where the copy is from. Whatever is covered by another
        // mount later can't be changed by its path.
        const bool any_receives = std::ranges::any_of(wanted_, &schema::Mount::receives);
        CHECK_OK(mount(nullptr, "/", nullptr, MS_REC | (any_receives ? MS_SLAVE : MS_PRIVATE), nullptr, "/"));
        terminal_ = own_terminal();
        const auto text = TRY(proc::read_file("/proc/self/mountinfo"));
        for (const auto& line : schema::parse_mounts(text)) outside_.push_back(line.point);
        // As for whoever is outside: a file system that has been taken out of the machine since isn't here.
        std::erase_if(wanted_, [&](const schema::Mount& each) {
            return came_with_another(each) && std::ranges::find(outside_, each.outside) == outside_.end();
        });
        if (wanted_.empty() || wanted_.front().point != "/") return fail("a mount namespace without a root");
        const bool changes_root = wanted_.front().outside != "/";
        // What is inherited is there already, and may be on a server that is down; as what comes along.
        for (const auto& each : wanted_)
            if (!each.outside.empty() && !each.along.value_or(false) && (changes_root || !each.inherited))
                open_source(outside_now(each.outside));
        for (const auto& each : late_)
            if (is_from_outside(each)) open_source(outside_now(each.outside));
        if (changes_root)
            CHECK_OK(prepare_root());
        else
            for (const auto& point : outside_) there_.push_back({point, point});
        for (const auto& each : wanted_) {
            CHECK_OK(set_flags_of_what_it_covers(each));
            CHECK_OK(put(each));
        }
        take_away_the_rest();
        CHECK_OK(show_proc_until_then());
        CHECK_OK(show_outside_until_then());
        CHECK_OK(set_flags_of_the_rest());
        if (changes_root) CHECK_OK(change_root());
        return {};
    }

  private:
    struct Source {
        Fd file;
        int problem = 0;  // errno of its opening
    };
    struct There {
        std::string point, outside;
        bool wanted = false;
    };

    static Result<> mount(const char* source, const std::string& point, const char* type, unsigned long flags,
                          const char* data, const std::string& name) {
        if (::mount(source, point.c_str(), type, flags, data) == 0) return {};
        return fail_errno("mounting {}", name);
    }

    // Before anything is mounted here: `bwrap --tmpfs /home --bind /home/user/work /home/user/work` hides
    // /home under an empty one, into which the source's path leads then.
    void open_source(const std::string& outside) {
        if (sources_.contains(outside)) return;
        Fd file(::open(outside.c_str(), O_PATH | O_CLOEXEC));
        const int problem = file ? 0 : errno;
        sources_.emplace(outside, Source{std::move(file), problem});
    }

    // open_tree(2) is there since Linux 5.2, and names a file without proc, which may be another by now.
    [[nodiscard]] Result<> bind(const std::string& outside, const std::string& at, const std::string& name) {
        open_source(outside);
        const auto& [opened, problem] = sources_.at(outside);
        errno = problem;
        if (!opened) return fail_errno("mounting {}: {}", name, outside);
        const int file = opened.get();
        const Fd tree(static_cast<int>(
            ::syscall(SYS_open_tree, file, "", tree_clone | tree_recursive | tree_empty_path | O_CLOEXEC)));
        if (tree && ::syscall(SYS_move_mount, tree.get(), "", AT_FDCWD, at.c_str(), move_empty_path) == 0)
            return {};
        return mount(fmt::format("/proc/self/fd/{}", file).c_str(), at, nullptr, MS_BIND | MS_REC, nullptr,
                     name);
    }

    [[nodiscard]] std::string inside(const std::string& point) const { return schema::joined(new_, point); }

    // The terminal that the tool was started at, which the programs' is replaced by; without one nothing.
    static std::string own_terminal() {
        for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
            if (::isatty(fd) == 1)
                return proc::read_link(fmt::format("/proc/self/fd/{}", fd)).value_or("/dev/null");
        return "/dev/null";
    }

    // A terminal is bound as /dev/console by sandboxes. The one of that number has gone with its window, or
    // is somebody else's by now.
    [[nodiscard]] const std::string& outside_now(const std::string& outside) const {
        return outside.starts_with("/dev/pts/") && outside != "/dev/pts/ptmx" ? terminal_ : outside;
    }

    Result<> prepare_root() {
        CHECK_OK(mount("cairn", stage, "tmpfs", 0, "mode=0755", stage));
        const std::string old = std::string(stage) + old_root;
        if (::mkdir((std::string(stage) + new_root).c_str(), 0755) != 0 || ::mkdir(old.c_str(), 0755) != 0 ||
            ::syscall(SYS_pivot_root, stage, old.c_str()) != 0 || ::chdir("/") != 0)
            return fail_errno("a new root folder");
        new_ = new_root;
        old_ = old_root;
        return {};
    }

    // pivot_root(2), "pivot_root(".", ".")": the old root is below the new one, and taken away.
    Result<> change_root() {
        if (::chdir(new_root) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
            ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0)
            return fail_errno("changing the root folder (pivot_root)");
        new_.clear();
        return {};
    }

    // mount(2) puts it on top of what is there; here that is taken away before.
    static Result<> put_proc(const schema::Mount& wanted, bool instead) {
        constexpr unsigned set_string = 1, create = 6;  // <linux/mount.h>: FSCONFIG_*
        const Fd system(static_cast<int>(::syscall(SYS_fsopen, "proc", 0)));
        // Without, /proc/self/mountinfo says "none".
        if (system && !wanted.source.empty())
            ::syscall(SYS_fsconfig, system.get(), set_string, "source", wanted.source.c_str(), 0);
        std::istringstream options(wanted.data);
        for (std::string word; system && std::getline(options, word, ',');)
            if (const auto equal = word.find('='); equal != std::string::npos)
                ::syscall(SYS_fsconfig, system.get(), set_string, word.substr(0, equal).c_str(),
                          word.substr(equal + 1).c_str(), 0);
        unsigned attributes = 0;  // MOUNT_ATTR_* are MS_* for these
        attributes |=
            static_cast<unsigned>(flags_of(wanted.options) & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC));
        if (!system || ::syscall(SYS_fsconfig, system.get(), create, nullptr, nullptr, 0) != 0)
            return fail_errno("proc of a pid namespace at {}", wanted.point);
        const Fd made(static_cast<int>(::syscall(SYS_fsmount, system.get(), 0, attributes)));
        if (!made) return fail_errno("mounting proc of a pid namespace at {}", wanted.point);
        if (instead && ::umount2(wanted.point.c_str(), MNT_DETACH) != 0)
            return fail_errno("{}", wanted.point);
        if (::syscall(SYS_move_mount, made.get(), "", AT_FDCWD, wanted.point.c_str(), move_empty_path) != 0)
            return fail_errno("mounting proc of a pid namespace at {}", wanted.point);
        return {};
    }

    // Which of those that the namespace has begun with it is; null: none, it is mounted anew.
    There* known(const schema::Mount& mount) {
        const auto found = std::ranges::find_if(there_, [&](const There& each) {
            return !each.wanted && each.point == mount.point && each.outside == mount.outside &&
                   !mount.outside.empty();
        });
        return found == there_.end() ? nullptr : &*found;
    }

    Result<> put(const schema::Mount& mount) {
        put_.insert(&mount);
        if (auto* const there = known(mount)) {
            there->wanted = true;
            return {};
        }
        const std::string at = inside(mount.point);
        if (!mount.inside.empty()) {
            there_.push_back({mount.point, "", true});
            return Builder::mount(inside(mount.inside).c_str(), at, nullptr, MS_BIND, nullptr, mount.point);
        }
        if (mount.outside.empty()) {
            CHECK_OK(Builder::mount(mount.source.c_str(), at, mount.type.c_str(),
                                    flags_of(mount.options) & (MS_NOSUID | MS_NODEV | MS_NOEXEC),
                                    mount.data.c_str(), mount.point));
            there_.push_back({mount.point, "", true});
            return fill(mount, at);
        }
        if (const auto taken = trees_.find(mount.point); taken != trees_.end()) {
            const int tree = taken->second.get();
            if (::syscall(SYS_move_mount, tree, "", AT_FDCWD, at.c_str(), move_empty_path) != 0)
                return fail_errno("mounting {}", mount.point);
            return {};
        }
        CHECK_OK(bind(outside_now(mount.outside), at, mount.point));
        there_.push_back({mount.point, mount.outside, true});
        for (const auto& point : outside_)
            if (point != mount.outside && schema::is_below(point, mount.outside))
                there_.push_back(
                    {schema::joined(mount.point,
                                    point.substr(mount.outside == "/" ? 0 : mount.outside.size())),
                     point});
        return {};
    }

    // In this order: a folder that nobody may write to is made so when it has all that is in it.
    static Result<> fill(const schema::Mount& mount, const std::string& at) {
        for (const auto& file : mount.files) {
            const std::string path = schema::joined(at, file.path);
            if (auto made = make(file, path, at); !made)
                return std::unexpected(std::move(made.error()).in(schema::joined(mount.point, file.path)));
        }
        for (auto file = mount.files.rbegin(); file != mount.files.rend(); ++file) {
            const std::string path = schema::joined(at, file->path);
            if (::lchown(path.c_str(), file->uid, file->gid) != 0 ||
                (!S_ISLNK(file->mode) && ::chmod(path.c_str(), file->mode & 07777) != 0))
                return fail_errno("{}: owner and mode", schema::joined(mount.point, file->path));
            constexpr std::int64_t second = 1'000'000'000;
            const timespec times[2] = {{0, UTIME_OMIT}, {file->mtime_ns / second, file->mtime_ns % second}};
            if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
                return fail_errno("{}: its time", schema::joined(mount.point, file->path));
        }
        return {};
    }

    static Result<> make(const schema::MountedFile& file, const std::string& path, const std::string& at) {
        int failed = 0;
        if (S_ISDIR(file.mode)) {
            failed = file.path.empty() ? 0 : ::mkdir(path.c_str(), 0755);
        } else if (S_ISLNK(file.mode)) {
            failed = ::symlink(file.target.c_str(), path.c_str());
        } else if (S_ISREG(file.mode) && !file.target.empty()) {
            failed = ::link(schema::joined(at, file.target).c_str(), path.c_str());
        } else if (S_ISREG(file.mode)) {
            const Fd made(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
            const auto size = static_cast<ssize_t>(file.contents.size());
            failed = made && ::write(made.get(), file.contents.data(), file.contents.size()) == size ? 0 : -1;
        } else {
            failed = ::mknod(path.c_str(), file.mode, file.device);
        }
        if (failed != 0) return fail_errno("can't be made");
        return {};
    }

    // What was mounted outside since is harmless where it can't be taken away: in a user namespace of its own
    // a process may not uncover what others have covered (mount_namespaces(7), locked mounts).
    void take_away_the_rest() const {
        for (const auto& each : std::ranges::reverse_view(there_))
            if (!each.wanted) ::umount2(inside(each.point).c_str(), MNT_DETACH);
    }

    // What is mounted on a mount, or on a folder above it (`bwrap --ro-bind / / --dev /dev` leaves the
    // machine's /dev/shm below its own /dev), is what its path leads to from then on.
    Result<> set_flags_of_what_it_covers(const schema::Mount& next) {
        if (known(next) != nullptr) return {};
        for (const auto& each : wanted_) {
            if (&each == &next) break;
            if (schema::is_below(each.point, next.point)) CHECK_OK(set_flags_once(each));
        }
        return {};
    }

    Result<> set_flags_of_the_rest() {
        for (const auto& each : wanted_) CHECK_OK(set_flags_once(each));
        return {};
    }

    Result<> set_flags_once(const schema::Mount& each) {
        return flagged_.insert(&each).second ? set_flags(each) : Result<>{};
    }

    [[nodiscard]] Result<> set_flags(const schema::Mount& each) const {
        const std::string at = inside(each.point);
        struct statfs now {};
        const auto flags = flags_of(each.options);
        // Those that the namespace has begun with may cover one another.
        const auto covering = [&](const schema::Mount& other) {
            return &other > &each && schema::is_below(each.point, other.point) &&
                   (other.inherited || put_.contains(&other));
        };
        if (std::ranges::any_of(wanted_, covering)) return {};
        constexpr unsigned long shown =
            MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME | MS_RELATIME;
        const bool reached = ::statfs(at.c_str(), &now) == 0;
        // It is as it was, where we can't get to as little as the programs can.
        if (!reached && came_with_another(each)) return {};
        const bool same = reached && shown_flags(now) == (flags & shown);
        if (!same)
            CHECK_OK(mount(nullptr, at, nullptr, MS_REMOUNT | MS_BIND | flags, nullptr,
                           each.point + " (" + each.options + ")"));
        return set_propagation(each, at);
    }

    // mount_namespaces(7), "shared subtrees". A slave may be shared as well.
    static Result<> set_propagation(const schema::Mount& each, const std::string& at) {
        const auto become = [&](unsigned long what) {
            return mount(nullptr, at, nullptr, what, nullptr, each.point);
        };
        if (!each.receives) CHECK_OK(become(each.bindable ? MS_PRIVATE : MS_UNBINDABLE));
        return each.shared ? become(MS_SHARED) : Result<>{};
    }

    // statfs(2) says ST_*, of which the first four are MS_* of mount(2).
    static unsigned long shown_flags(const struct statfs& now) {
        const auto flags = static_cast<unsigned long>(now.f_flags);
        unsigned long result = flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
        if ((flags & ST_NOATIME) != 0) result |= MS_NOATIME;
        if ((flags & ST_NODIRATIME) != 0) result |= MS_NODIRATIME;
        if ((flags & ST_RELATIME) != 0) result |= MS_RELATIME;
        return result;
    }

    std::vector<schema::Mount> wanted_, late_;
    std::set<const schema::Mount*> put_, flagged_;  // of wanted_: which are there, and as they are to be
    std::vector<std::string> outside_;
    std::vector<There> there_;
    std::string new_, old_, terminal_;
    std::map<std::string, Source> sources_;  // by path outside
    std::map<std::string, Fd> trees_;        // by mount point, of what comes late
};

}  // namespace

Result<> build_mounts(const std::vector<schema::Mount>& mounts) {
    return Builder(mounts).run();
}

Result<> build_late_mounts(const std::vector<schema::Mount>& mounts) {
    return Builder(mounts).run_late();
}

}  // namespace cairn::restart
