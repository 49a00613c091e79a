// Regular files, directories, devices by path, O_PATH; the program's executable, its cwd and root; mapped
// files.
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <charconv>

#include "common/launchers_folder.h"
#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"
#include "resources/io_uring/schema_ring.h"
#include "resources/namespace/capture_own.h"

namespace cairn::capture {
namespace {

// Files that aren't descriptions: mapped, executed, cwd.
struct FilesFound {
    std::map<std::pair<Inode, std::string>, std::int64_t> all;
};

constexpr std::string_view deleted_mark = " (deleted)";

bool leads_to(const std::string& path, const Inode& inode) {
    struct stat there {};
    return ::lstat(path.c_str(), &there) == 0 && inode_of(there) == inode;
}

// Another name in the same folder: a file that was linked and then unlinked under its first name.
std::string other_name(const std::string& path, const Inode& inode) {
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    DIR* entries = ::opendir(folder.c_str());
    if (!entries) return {};
    std::string name;
    while (const dirent* entry = ::readdir(entries))
        if (entry->d_ino == inode.number && leads_to(folder + entry->d_name, inode)) {
            name = folder + entry->d_name;
            break;
        }
    ::closedir(entries);
    return name;
}

bool on(int fd, long magic) {
    struct statfs system {};
    return ::fstatfs(fd, &system) == 0 && system.f_type == magic;
}

// Contents of a file that somebody may be writing to are only the checkpoint's while everybody stands still.
void hash_now(const Table& table, const Description& found, schema::FileIdentity& identity) {
    if (!found.is(S_IFREG)) return;
    const bool readable = (found.flags & O_ACCMODE) == O_RDWR;
    if (!readable && has_lease(table, inode_of(found.status))) return;
    const Fd again = readable ? Fd() : reopen(found.fd(), O_RDONLY);
    identity.tail_hash = tail_hash(readable ? found.fd() : again.get(), identity.size);
}

}  // namespace

Located locate(const std::string& link, const Inode& inode) {
    if (leads_to(link, inode)) return {link, false};
    std::string path = link;
    if (path.ends_with(deleted_mark)) path.resize(path.size() - deleted_mark.size());
    if (path.starts_with('/'))
        if (std::string other = other_name(path, inode); !other.empty()) return {other, false};
    return {path, true};
}

Located locate(const std::string& link, const struct stat& status) {
    if (status.st_nlink > 0 && !S_ISDIR(status.st_mode)) return locate(link, inode_of(status));
    if (leads_to(link, inode_of(status))) return {link, false};
    std::string path = link;
    if (path.ends_with(deleted_mark)) path.resize(path.size() - deleted_mark.size());
    return {path, true};
}

std::string program_path(const Table& table, const std::string& path) {
    // /proc/PID/... and /proc/PID/task/TID/...: ids of the programs, which a restart translates.
    std::string result = path;
    for (const std::string_view before : {"/proc/", "/task/"}) {
        const std::size_t at = before == "/proc/" ? 0 : result.find(before);
        if (at == std::string::npos || !std::string_view(result).substr(at).starts_with(before))
            return result;
        const char* begin = result.data() + at + before.size();
        pid_t id = 0;
        const auto [end, problem] = std::from_chars(begin, result.data() + result.size(), id);
        if (problem != std::errc{} || (end != result.data() + result.size() && *end != '/')) return result;
        result.replace(at + before.size(), static_cast<std::size_t>(end - begin),
                       std::to_string(table.to_program(KernelId(id)).number()));
    }
    return result;
}

namespace {

// As locate(). Of somebody in a mount namespace of the group's own, the path is one in there: then it is
// found outside where the same is mounted outside, and `own` says how it was reached. `mount`: by which of
// the mounts, if that is known.
Located locate_for(const Table& table, const Holder& holder, const std::string& link,
                   const struct stat& status, std::optional<int> mount,
                   std::optional<schema::InOwnMounts>& own) {
    const auto space = own_mounts_of(table, holder);
    if (!space || !link.starts_with('/') || link.ends_with(deleted_mark) || status.st_nlink == 0)
        return locate(link, status);
    const auto outside = path_outside(
        table, *space, link, [&](const struct stat& there) { return inode_of(there) == inode_of(status); });
    Located place = locate(outside, status);
    if (mount ? has_mount(table, *space, *mount) : outside != link || place.deleted)
        own = schema::InOwnMounts{*space, link, place.deleted};
    if (own && place.deleted) place = {link, false};
    return place;
}

// How it was reached; the object has its identity already. What is only in there will be in another file
// system, which the restart makes.
void lead_to(schema::Object& object, const std::optional<schema::InOwnMounts>& own) {
    object.get<schema::File>()->own_mounts = own;
    if (own && own->only_there) object.identity.device = object.identity.inode = 0;
}

// A file of proc, by its path as its holder sees it.
struct InProc {
    bool there = false;  // false: the process that it is of has gone
    bool leads = false;  // what is left of the path then is in the same proc
};

InProc look_in_proc(const Description& found) {
    const auto root = proc_folder(found.holder) + "root";
    std::string path = found.link;
    if (path.ends_with(deleted_mark)) path.resize(path.size() - deleted_mark.size());
    struct stat status {};
    while (::lstat((root + path).c_str(), &status) != 0 && path.size() > 1)
        path.resize(std::max(path.rfind('/'), std::size_t{1}));
    return {path == found.link, status.st_dev == found.status.st_dev};
}

// A proc of the group's own. Numbers in a path in there are those of its pid namespace, which its processes
// have again after a restart. A process that sees that proc is who opens it again, by its path.
Result<> describe_file_of_own_proc(const Table& table, const Description& found, schema::Object& object) {
    const auto space = own_mounts_of(table, found.holder);
    const auto look = look_in_proc(found);
    if (!space || !look.leads || TRY(read_link(proc_folder(found.holder) + "root")) != "/")
        return fail_code(
            ExitCode::refused,
            "is {} in a proc of the computation's own, which its holder doesn't see by that path, and can't "
            "be saved; close it before a checkpoint",
            found.link);
    object.path = found.link;
    object.deleted = !look.there;
    if (look.there)
        object.get<schema::File>()->own_mounts = schema::InOwnMounts{*space, found.link, true, true};
    return {};
}

// By its path outside it can't be found if it shows other processes than the session's, or is mounted nowhere
// that its holder sees.
bool is_of_own_proc(const Table& table, const Description& found) {
    struct stat ours {};
    if (::stat("/proc", &ours) == 0 && ours.st_dev == found.status.st_dev) return false;
    return shows_inner_pids(table, found.status.st_dev) || !look_in_proc(found).leads;
}

}  // namespace

bool is_file(const Looked& it) {
    return it.name.empty() && !it.found.link.starts_with("/secretmem") &&
           (it.found.is(S_IFREG) || it.found.is(S_IFDIR) || it.found.is(S_IFCHR) || it.found.is(S_IFBLK) ||
            (it.found.flags & O_PATH) != 0);
}

Result<> describe_file(Table& table, const Description& found, schema::Object& object) {
    object.identity = identity_of(found.status);
    if (!(found.flags & O_PATH)) {
        const off_t position = ::lseek(found.fd(), 0, SEEK_CUR);
        object.position = position > 0 ? position : 0;
    }
    if (on(found.fd(), PROC_SUPER_MAGIC)) {
        if (is_of_own_proc(table, found)) return describe_file_of_own_proc(table, found, object);
        // Its size is 0 and its inode another at each look: only the path says what it is.
        object.path = program_path(table, found.link);
        // Its process has gone. The kernel marks such a file in its name or it doesn't.
        object.deleted =
            object.path.ends_with(deleted_mark) ||
            (found.link.starts_with("/proc/") && ::access(found.link.c_str(), F_OK) != 0 && errno == ENOENT);
        return {};
    }
    std::optional<schema::InOwnMounts> own;
    const Located place = locate_for(table, found.holder, found.link, found.status,
                                     static_cast<int>(info_number(found.info, "mnt_id")), own);
    lead_to(object, own);
    object.path = place.path;
    object.deleted = place.deleted;
    // A queue of mq_open(3) shows itself as a regular file, by its name in a mount that nobody sees.
    constexpr long mqueue_magic = 0x19800202;  // ipc/mqueue.c
    if ((place.deleted || place.path.starts_with("/dev/mqueue/")) && on(found.fd(), mqueue_magic))
        return describe_mqueue(table, found, object);
    if (found.is(S_IFREG)) {
        const bool in_memory = !place.deleted && !(own && own->only_there) &&
                               ((place.path.starts_with("/dev/shm/") && on(found.fd(), TMPFS_MAGIC)) ||
                                on(found.fd(), HUGETLBFS_MAGIC) || !launchers_folder(place.path).empty());
        if (place.deleted || in_memory) {
            auto backing = TRY(back(table, found, place));
            object.backing = backing;
        } else if (!(found.flags & O_PATH) && (found.flags & O_ACCMODE) != O_RDONLY) {
            hash_now(table, found, object.identity);
        }
    } else if (place.deleted && !found.is(S_IFDIR)) {
        table.note("{} is {}, which has no path any more: it will be made again by its device number",
                   found.who(), found.link);
    }
    if (found.is(S_IFBLK))
        table.note("{} is the block device {}: what is on it is not saved", found.who(), object.path);
    return {};
}

namespace {

// For a self-contained image: a restart that doesn't find the file as it was takes this copy. It has no name
// then, and goes by the one of a deleted file.
Result<> keep_contents(Table& table, schema::Object& object, const std::string& path,
                       const struct stat& status) {
    if (!table.options.self_contained || object.backing >= 0 || !S_ISREG(status.st_mode)) return {};
    Description found;
    found.status = status;
    found.link = object.path;
    found.duplicate.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!found.duplicate) return fail_errno("{}", object.path);
    auto backing = back(table, found, Located{object.path, true});
    if (!backing) return std::unexpected(std::move(backing.error()));
    object.backing = *backing;
    return {};
}

// A small file that a program writes to by a mapping only, as java does to /tmp/hsperfdata_USER/PID: others
// clean it away when its writer is dead. Should it be gone at a restart it is made again, by its name.
void keep_written(Table& table, schema::Object& object, const struct stat& status) {
    constexpr off_t small = 1 << 20;
    if (!S_ISREG(status.st_mode) || status.st_size > small || object.backing >= 0) return;
    Description found;
    found.status = status;
    found.link = object.path;
    found.duplicate.reset(::open(object.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    struct stat opened {};
    if (!found.duplicate || ::fstat(found.fd(), &opened) != 0 || !same_inode(opened, status)) return;
    if (auto backing = back(table, found, Located{object.path, false})) object.backing = *backing;
}

}  // namespace

Result<std::int64_t> ObjectTable::file(const Holder& holder, const std::string& link) {
    Table& table = *table_;
    const std::string path = proc_folder(holder) + link;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return fail_errno("{}: {} can't be read", name_of(holder), path);
    if (link == "root") {
        struct stat ours {};
        if (::stat("/", &ours) == 0 && same_inode(ours, status)) return -1;
    }
    auto target = read_link(path);
    if (!target) return std::unexpected(std::move(target.error()).in(name_of(holder)));
    const auto [entry, is_new] = table.of<FilesFound>().all.try_emplace({inode_of(status), *target}, -1);
    const bool executed = link == "exe";
    if (is_new) {
        std::optional<schema::InOwnMounts> own;
        const Located place = locate_for(table, holder, *target, status, std::nullopt, own);
        schema::Object& object = table.add(schema::File{});
        entry->second = object.id;
        object.path = program_path(table, place.path);
        object.deleted = place.deleted;
        object.identity = identity_of(status);
        lead_to(object, own);
        object.flags = S_ISDIR(status.st_mode) ? O_PATH | O_DIRECTORY : O_RDONLY;
        if (place.deleted && S_ISREG(status.st_mode)) {
            Description found;
            found.holder = holder;
            found.status = status;
            found.link = *target;
            found.duplicate.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
            if (!found.duplicate) return fail_errno("{}: {} ({})", name_of(holder), path, *target);
            auto backing = back(table, found, place);
            if (!backing) return std::unexpected(std::move(backing.error()).in(name_of(holder)));
            object.backing = *backing;
        }
    }
    schema::Object& object = table.objects[static_cast<std::size_t>(entry->second)];
    auto& saved = *object.get<schema::File>();
    saved.relied_on = saved.relied_on || (executed && object.backing < 0);
    if (executed && saved.relied_on)
        if (auto kept = keep_contents(table, object, path, status); !kept)
            return std::unexpected(std::move(kept.error()).in(name_of(holder)));
    return object.id;
}

namespace {

struct MappedFile {
    std::string path;
    struct stat status {};
    bool same = false;  // the path leads to what is mapped
    std::optional<schema::InOwnMounts> own;
};

// On some file systems (overlay, btrfs) the device of a mapping is another than stat(2) tells, and the
// inode's number has to do. Where there are several places to look, who has both is looked for first: file
// systems in memory give the same numbers.
MappedFile find_mapped(const Table& table, const Holder& holder, const Mapping& mapping) {
    MappedFile found;
    const std::int64_t space = own_mounts_of(table, holder).value_or(-1);
    for (const bool by_device : {true, false}) {
        const auto is_it = [&](const struct stat& there) {
            return there.st_ino == mapping.inode && (!by_device || there.st_dev == mapping.device);
        };
        const auto look = [&](const std::string& path) {
            found.same = ::stat(path.c_str(), &found.status) == 0 && is_it(found.status);
            return found.same;
        };
        found.path = mapping.path;
        if (look(found.path)) return found;
        if (space < 0 || mapping.deleted) continue;
        const auto outside = path_outside(table, space, mapping.path, is_it);
        const bool only_there = !look(outside);
        if (only_there && !look(fmt::format("{}root{}", proc_folder(holder), mapping.path))) continue;
        if (!only_there) found.path = outside;
        found.own = schema::InOwnMounts{space, mapping.path, only_there};
        return found;
    }
    return found;
}

}  // namespace

bool ObjectTable::is_of_own_mounts(const Holder& holder, const Mapping& mapping) const {
    return own_mounts_of(*table_, holder) && find_mapped(*table_, holder, mapping).own;
}

Result<std::int64_t> ObjectTable::mapped_file(const Holder& holder, const Mapping& mapping) {
    Table& table = *table_;
    if (mapping.path == ring_name) return mapped_ring(table, holder, mapping);
    const Inode inode{mapping.device, mapping.inode};
    if (mapping.path.starts_with("socket:[")) return mapped_packet_ring(table, holder, mapping);
    if (mapping.huge_page != 0) return shared_memory(holder, mapping);
    const auto [entry, is_new] = table.of<FilesFound>().all.try_emplace({inode, mapping.path}, -1);
    if (is_new) {
        auto mapped = find_mapped(table, holder, mapping);
        auto& [path, status, same, own] = mapped;
        if (!same && path.ends_with(deleted_mark)) path.resize(path.size() - deleted_mark.size());
        if (!same) {
            table.of<FilesFound>().all.erase(entry);
            if (!mapping.deleted && path == mapping.path)
                table.note(
                    "{}: {}, which it has mapped, is another file by now: the mapped one's contents are "
                    "saved",
                    name_of(holder), path);
            return shared_memory(holder, mapping);
        }
        // Nobody but the ranks will have it after a restart.
        if (mapping.shared && is_launchers_file(table, holder, path)) {
            table.of<FilesFound>().all.erase(entry);
            auto id = shared_memory(holder, mapping);
            if (!id) return id;
            schema::Object& object = table.objects[static_cast<std::size_t>(*id)];
            object.get<schema::Memory>()->type = schema::MemoryType::anonymous;
            object.deleted = true;
            return id;
        }
        if (mapping.shared && !own && !launchers_folder(path).empty()) {
            table.of<FilesFound>().all.erase(entry);
            return shared_memory(holder, mapping);
        }
        schema::Object& object = table.add(schema::File{true, std::nullopt});
        entry->second = object.id;
        object.path = path;
        object.identity = identity_of(status);
        lead_to(object, own);
        if (!mapping.shared)
            if (auto kept = keep_contents(table, object, path, status); !kept)
                return std::unexpected(std::move(kept.error()).in(name_of(holder)));
        if (mapping.shared && mapping.writable) keep_written(table, object, status);
    }
    schema::Object& object = table.objects[static_cast<std::size_t>(entry->second)];
    if (mapping.shared && mapping.writable) {
        object.flags = (object.flags & ~O_ACCMODE) | O_RDWR;
        if (object.identity.tail_hash == 0) {
            const Fd file(::open(object.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
            if (file) object.identity.tail_hash = tail_hash(file.get(), object.identity.size);
        }
    }
    return object.id;
}

// Hashes of files that no member has open for writing: they may be found when the programs run again.
Result<> finish_files(Table& table) {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> hashes;
    for (const schema::Object& object : table.objects)
        if (object.identity.tail_hash != 0)
            hashes[{object.identity.device, object.identity.inode}] = object.identity.tail_hash;
    for (schema::Object& object : table.objects) {
        schema::FileIdentity& identity = object.identity;
        if (!object.is<schema::File>() || !S_ISREG(identity.mode) || object.backing >= 0 || object.deleted ||
            identity.tail_hash != 0 || object.path.starts_with("/proc/") ||
            has_lease(table, {identity.device, identity.inode}))
            continue;
        std::uint64_t& hash = hashes[{identity.device, identity.inode}];
        if (hash == 0) {
            // It may be another file by now, or written to by somebody outside: then there is no hash to be
            // had.
            const Fd file(::open(object.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
            struct stat now {};
            if (!file || ::fstat(file.get(), &now) != 0) continue;
            const schema::FileIdentity same = identity_of(now);
            if (same.device != identity.device || same.inode != identity.inode ||
                same.size != identity.size || same.mtime_ns != identity.mtime_ns)
                continue;
            hash = tail_hash(file.get(), identity.size);
        }
        identity.tail_hash = hash;
    }
    return {};
}

}  // namespace cairn::capture
