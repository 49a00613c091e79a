// Is a file what it was when the checkpoint was taken?
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "common/folder_trust.h"
#include "resources/file/schema_identity.h"
#include "resources/restore/other.h"

namespace cairn::restart {
namespace {

using Action = Verdict::Action;

const char* type_name(mode_t mode) {
    switch (mode & S_IFMT) {
        case S_IFREG:
            return "a regular file";
        case S_IFDIR:
            return "a directory";
        case S_IFCHR:
            return "a character device";
        case S_IFBLK:
            return "a block device";
        case S_IFIFO:
            return "a FIFO";
        case S_IFLNK:
            return "a symbolic link";
        case S_IFSOCK:
            return "a socket";
        default:
            return "of an unknown type";
    }
}

// Does the file still begin with what it was? As far as size and the hash of the old tail can tell.
bool begins_as_before(const FoundFile& found, const schema::FileIdentity& before) {
    if (before.tail_hash == 0) return false;
    const Fd file(::open(fd_path(found.place.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    return file && tail_hash(file.get(), before.size) == before.tail_hash;
}

bool is_relied_on(const schema::Object& object) {
    const auto* file = object.get<schema::File>();
    return file != nullptr && file->relied_on;
}

// Time and size of another file can be made to look alike. What is executed or mapped is taken from another
// inode only if none but root and those who had it can have put it there.
Verdict judge_exchanged(const schema::Object& object, const std::string& path, const FoundFile& found,
                        const Access& access) {
    const schema::FileIdentity& before = object.identity;
    if (before.tail_hash != 0 && !begins_as_before(found, before))
        return {Action::refuse, fmt::format("{} is another file than at the checkpoint, with other contents, "
                                            "though of the same size and time",
                                            path)};
    if (!is_relied_on(object)) return {};
    for (const Rights& rights : access.of(object.id))
        if (const std::string who = who_else_can_write(path, rights.user); !who.empty())
            return {
                Action::refuse,
                fmt::format("{} is another file than at the checkpoint; it is executed or mapped, and others "
                            "may have put it there: {}",
                            path, who)};
    return {};
}

Verdict judge_regular(const schema::Object& object, const std::string& path, const FoundFile& found,
                      const Access& access, FilePolicy policy) {
    const schema::FileIdentity& before = object.identity;
    const schema::FileIdentity now = identity_of(found.status);
    if (now.size == before.size && now.mtime_ns == before.mtime_ns)
        return now.inode == before.inode ? Verdict{} : judge_exchanged(object, path, found, access);
    const bool same_begin = now.size >= before.size && begins_as_before(found, before);
    // The hash covers the tail only: for a longer file whose time has changed it proves nothing about the
    // rest.
    if (same_begin && now.size == before.size && before.size <= tail_bytes) return {};

    const bool writing = (object.flags & O_ACCMODE) != O_RDONLY;
    const std::int64_t growth = static_cast<std::int64_t>(now.size) - static_cast<std::int64_t>(before.size);
    const std::string change =
        growth != 0 ? fmt::format("had {} bytes and has {}", before.size, now.size)
                    : std::string(same_begin ? "was written to (its time differs)" : "has other contents");
    if (is_relied_on(object) && !writing)
        return {Action::refuse,
                fmt::format(
                    "{} has changed since the checkpoint: it {}; it is executed or mapped, and the image "
                    "doesn't hold its contents: put the old one back (--path-map OLD=NEW if it is elsewhere)",
                    path, change)};
    // A program's own output (`> OUT`), which it writes from the beginning to the end: it goes on where it
    // was at the checkpoint, and writes once more what it has written since.
    const bool output = (object.flags & (O_ACCMODE | O_APPEND)) == O_WRONLY && same_begin &&
                        object.position == static_cast<std::int64_t>(before.size);
    if (output && policy == FilePolicy::by_rule) return {};
    Verdict use{Action::use,
                fmt::format("{} has changed since the checkpoint (it {}): used as it is", path, change)};
    Verdict cut{
        Action::truncate,
        fmt::format("{} has grown since the checkpoint: cut back from {} to {} bytes when the programs "
                    "go on, what is cut is kept",
                    path, now.size, before.size)};
    Verdict refuse{Action::refuse,
                   fmt::format("{} has changed since the checkpoint: it {}; --files=use takes it as it is",
                               path, change)};
    switch (policy) {
        case FilePolicy::use:
            return use;
        case FilePolicy::refuse:
            return refuse;
        case FilePolicy::truncate:
            if (writing && growth > 0) return cut;
            break;
        case FilePolicy::by_rule:
        case FilePolicy::make:
            break;
    }
    if (writing && growth > 0 && same_begin && (object.flags & O_APPEND)) {
        const std::string others = who_else_appends(object, found, access);
        if (others.empty()) return cut;
        use.why += fmt::format(
            "; what has been written since stays, though the programs may write it again, for {} "
            "(--files=truncate cuts it off, and keeps it)",
            others);
    }
    if (writing) return use;
    // Somebody reads a file that another one writes: a log that has only grown is read on.
    return growth > 0 && same_begin ? use : refuse;
}

}  // namespace

namespace {

// Has it a name of its own, by which it is opened again?
bool is_named(const schema::Object& object) {
    const auto* file = object.get<schema::File>();
    const bool is_made = file != nullptr && file->own_mounts && file->own_mounts->only_there;
    return (file != nullptr || object.is<schema::Fifo>()) && !object.deleted && object.backing < 0 &&
           !is_late(object) && !is_made;
}

}  // namespace

std::set<std::string> files_to_make(const schema::Objects& objects, const ObjectSetOptions& options) {
    struct Use {
        bool written = false;
        bool kept = false;  // with contents that somebody needs: it isn't to be made anew, empty
    };
    std::map<std::string, Use> uses;
    for (const schema::Object& object : objects.objects) {
        if (!is_named(object) || !S_ISREG(object.identity.mode)) continue;
        Use& use = uses[mapped_path(object.path, options)];
        const int access = object.flags & O_ACCMODE;
        if (is_relied_on(object)) use.kept = true;
        if (access == O_RDONLY || (object.flags & O_PATH) != 0) continue;
        use.written = true;
        const bool appending = access == O_WRONLY && (object.flags & O_APPEND) != 0;
        if (!appending && options.files != FilePolicy::make) use.kept = true;
    }
    std::set<std::string> made;
    for (const auto& [path, use] : uses) {
        struct stat status {};
        const std::string folder = path.substr(0, path.rfind('/') + 1);
        if (use.written && !use.kept && ::lstat(path.c_str(), &status) != 0 && errno == ENOENT &&
            ::access(folder.c_str(), F_OK) == 0)
            made.insert(path);
    }
    return made;
}

std::set<std::int64_t> open_as_mapped(schema::Objects& objects, std::span<const schema::Process> processes) {
    using schema::AreaKind;
    std::set<std::int64_t> mapped, opened;
    for (const schema::Process& process : processes)
        for (const schema::Area& area : process.areas)
            if ((area.kind == AreaKind::file_shared || area.kind == AreaKind::shared_memory) &&
                area.never_writable == false)
                mapped.insert(area.object);
    for (schema::Object& object : objects.objects) {
        const bool is_file = object.is<schema::File>() && object.backing < 0;
        if (!mapped.contains(object.id) || !(is_file || object.is<schema::Memory>())) continue;
        if ((object.flags & O_ACCMODE) != O_RDONLY) continue;
        object.flags |= O_RDWR;
        if (is_file) opened.insert(object.id);
    }
    return opened;
}

Verdict judge(const schema::Object& object, const ObjectSetOptions& options, FoundFile* found_too) {
    if (!is_named(object)) return {};
    const std::string path = mapped_path(object.path, options);
    const bool remade = options.remade.contains(path);
    auto looked = options.access.find(object, path);
    if (!looked && looked.error().code == ExitCode::refused)
        return {Action::refuse, std::move(looked.error().what)};
    if (!looked && remade && looked.error().number == ENOENT)
        return {Action::make, fmt::format("{} is gone: made anew, empty", path)};
    // A name and nothing else: what is in it comes with the image.
    if (!looked && looked.error().number == ENOENT && S_ISFIFO(object.identity.mode)) return {};
    if (!looked)
        return {Action::refuse,
                fmt::format("{}: {}; it was there at the checkpoint (--path-map OLD=NEW if it is "
                            "elsewhere now{})",
                            path, std::strerror(looked.error().number),
                            looked.error().number == ENOENT && (object.flags & O_ACCMODE) != O_RDONLY
                                ? ", --files=make to make it anew, empty"
                                : "")};
    FoundFile own;
    FoundFile& found = found_too != nullptr ? *found_too : own;
    found = std::move(*looked);
    const struct stat& status = found.status;
    if (remade) return {};
    if (path == "/dev/null" && object.path != path && S_ISREG(object.identity.mode) && !is_relied_on(object))
        return {Action::use, fmt::format("{}: /dev/null stands in for it, as asked", object.path)};
    if (object.path.starts_with("/proc/") || object.path.starts_with("/sys/")) return {};
    if ((status.st_mode & S_IFMT) != (object.identity.mode & S_IFMT))
        return {Action::refuse, fmt::format("{} is {} now, and was {} at the checkpoint", path,
                                            type_name(status.st_mode), type_name(object.identity.mode))};
    const bool device = S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode);
    if (device && status.st_rdev != object.identity.rdev)
        return {Action::refuse, fmt::format("{} is another device now than at the checkpoint", path)};
    if (!S_ISREG(status.st_mode) || (object.flags & O_PATH)) return {};
    return judge_regular(object, path, found, options.access, options.files);
}

void ObjectSet::prefer_files(schema::Objects& objects, const ObjectSetOptions& options,
                             std::vector<std::string>& notes) {
    std::set<std::int64_t> spared, needed;
    for (schema::Object& object : objects.objects) {
        if (object.backing < 0) continue;
        if (is_relied_on(object) && !object.deleted) {
            const std::int64_t copy = std::exchange(object.backing, -1);
            // A copy that has a name is for a file that is gone (keep_written), not for one that has changed.
            const auto contents = std::ranges::find(objects.objects, copy, &schema::Object::id);
            if (contents != objects.objects.end() && !contents->deleted) {
                const std::string path = mapped_path(object.path, options);
                if (const auto found = options.access.find(object, path);
                    found || found.error().number != ENOENT) {
                    spared.insert(copy);
                    continue;
                }
                object.backing = copy;
                needed.insert(copy);
                notes.push_back(fmt::format(
                    "{}, which is written to by a mapping, is gone: made again as it was at the checkpoint",
                    path));
                continue;
            }
            const Verdict verdict = judge(object, options);
            if (verdict.action == Verdict::Action::fine) {
                spared.insert(copy);
                continue;
            }
            object.backing = copy;
            notes.push_back(fmt::format("{} isn't what it was at the checkpoint: the image's copy is used",
                                        mapped_path(object.path, options)));
        }
        needed.insert(object.backing);
    }
    std::erase_if(objects.objects, [&](const schema::Object& object) {
        return spared.contains(object.id) && !needed.contains(object.id);
    });
}

Result<> check_files(const schema::Objects& objects, const ObjectSetOptions& options,
                     std::vector<std::string>& notes) {
    std::vector<std::string> refused;
    for (const schema::Object& object : objects.objects) {
        std::ranges::move(missing_watched(object, options), std::back_inserter(refused));
        Verdict verdict = judge(object, options);
        if (verdict.action == Action::fine) continue;
        auto& list = verdict.action == Action::refuse ? refused : notes;
        if (std::ranges::find(list, verdict.why) == list.end()) list.push_back(std::move(verdict.why));
    }
    if (refused.empty()) return {};
    std::string all;
    for (const std::string& each : refused) all += (all.empty() ? "" : "; ") + each;
    return fail_code(ExitCode::refused, "{}", all);
}

}  // namespace cairn::restart
