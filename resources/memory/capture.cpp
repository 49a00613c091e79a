// Inodes whose contents are saved: shared anonymous memory, memfd, SysV segments, files that were deleted
// while somebody had them open or mapped, and files under /dev/shm.
#include "resources/memory/capture.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/shm.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/launchers_folder.h"
#include "common/proc.h"
#include "resources/file/schema_identity.h"
#include "resources/memory/capture_ahead.h"
#include "resources/memory/capture_contents.h"
#include "resources/memory/capture_huge.h"
#include "resources/memory/capture_mappings.h"
#include "resources/memory/capture_read.h"
#include "resources/namespace/capture_own.h"

namespace cairn::capture {
namespace {

using schema::MemoryType;

constexpr std::string_view deleted_suffix = " (deleted)";
constexpr std::uint64_t page = image_page;

std::string without_mark(std::string path) {
    if (path.ends_with(deleted_suffix)) path.resize(path.size() - deleted_suffix.size());
    return path;
}

MemoryType type_of(const std::string& path) {
    if (path.starts_with("/memfd:")) return MemoryType::memfd;
    if (path.starts_with("/SYSV")) return MemoryType::sysv;
    if (path.starts_with("/dev/zero") || path.starts_with("/anon_hugepage")) return MemoryType::anonymous;
    return MemoryType::file;
}

bool is_huge(const schema::Memory& saved) {
    return (static_cast<unsigned>(saved.memfd_flags) & MFD_HUGETLB) != 0;
}

schema::Memory& saved_of(schema::Object& object) {
    return *object.get<schema::Memory>();
}

void set_name(schema::Object& object, const Located& place) {
    object.path = place.path;
    object.deleted = place.deleted;
}

// What only a descriptor tells.
void describe_memory(schema::Object& object, int fd) {
    schema::Memory& saved = saved_of(object);
    struct stat status {};
    if (::fstat(fd, &status) == 0) {
        object.identity = identity_of(status);
        saved.size = object.identity.size;
        if (saved.type == MemoryType::file) saved.owner = {status.st_uid, status.st_gid};
    }
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && saved.type == MemoryType::memfd) {
        saved.seals = static_cast<std::uint32_t>(seals);
        saved.memfd_flags = MFD_ALLOW_SEALING;
    }
    struct statfs system {};
    if (::fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC) {
        saved.memfd_flags |= huge_memfd_flags(static_cast<std::uint64_t>(system.f_bsize));
    }
}

// Where the contents of an object go.
class Store {
  public:
    Store(InodeContents& contents, schema::Memory& saved) : contents_(contents), saved_(saved) {}

    // `data` starts at a page's begin; its last page may be short and is stored with zeros after it.
    // Thread-safe, if no two threads put the same page.
    Result<> put(std::uint64_t offset, std::span<const std::uint8_t> data) {
        return contents_.put(offset, data, &saved_.pages);
    }
    // Of a file; what was copied ahead isn't read again.
    [[nodiscard]] Reading reading() {
        return {
            contents_.block(),
            [this](std::uint64_t offset, std::uint64_t bytes) {
                return contents_.is_unchanged(offset, bytes, &saved_.pages);
            },
            [this](std::uint64_t offset, std::span<const std::uint8_t> data) { return put(offset, data); }};
    }

  private:
    InodeContents& contents_;
    schema::Memory& saved_;
};

Result<> read_descriptor(const schema::Object& object, std::uint64_t bytes, int fd, Store& store) {
    return read_contents(fd, bytes, object.path, store.reading());
}

// A System V segment, as a whole: not all of it need be mapped by anybody.
Result<> read_segment(int id, schema::Object& object, std::uint64_t size, Store& store) {
    void* at = ::shmat(id, nullptr, SHM_RDONLY);
    if (at == reinterpret_cast<void*>(-1))
        return fail_errno("System V segment {} can't be attached", object.path);
    const auto huge = huge_page_at(at);
    if (huge != 0) {
        saved_of(object).memfd_flags = huge_memfd_flags(huge);
        // Which of its pages are there is told of what could be written to only.
        if (void* const writable = ::shmat(id, nullptr, 0); writable != reinterpret_cast<void*>(-1)) {
            ::shmdt(at);
            at = writable;
        }
    }
    const ProgramAddress begin(reinterpret_cast<std::uint64_t>(at));
    const auto whole = std::max(page, huge);
    // For root only, and then its holes aren't filled by our look.
    const Fd file(::open(
        fmt::format("/proc/self/map_files/{:x}-{:x}", begin, begin + (size + whole - 1) / whole * whole)
            .c_str(),
        O_RDONLY | O_CLOEXEC));
    const auto put = [&store](std::uint64_t offset, std::span<std::uint8_t> data) {
        return store.put(offset, data);
    };
    auto done = file        ? read_descriptor(object, size, file.get(), store)
                : huge != 0 ? read_huge_attached(at, size, huge, put)
                            : store.put(0, {static_cast<std::uint8_t*>(at), size});
    ::shmdt(at);
    return done;
}

Result<> read_mapped_huge(Table& table, const schema::Object& object, schema::Memory& saved,
                          const Memory& memory, Store& store) {
    const auto put = [&store](std::uint64_t offset, std::span<std::uint8_t> data) {
        return store.put(offset, data);
    };
    const auto untouched = [&](const Holder& holder) {
        table.note(
            "{} has {} mapped privately, of huge pages, and hasn't touched all of it: what the file has "
            "there "
            "isn't saved, "
            "because only root can look at it (hold a descriptor of the file)",
            name_of(holder), object.path);
    };
    saved.size = std::max(saved.size, TRY(read_huge_mappings(memory, put, untouched)));
    return {};
}

}  // namespace

Memory& memory_of(Table& table, MemoryKey key, const std::string& path) {
    const auto [entry, is_new] = table.of<MemoriesFound>().all.try_emplace(key);
    const Inode& inode = key.inode;
    if (is_new) {
        schema::Object& object = table.add(schema::Memory{});
        entry->second.object = object.id;
        schema::Memory& saved = saved_of(object);
        saved.type = type_of(path);
        object.path = without_mark(path);
        object.deleted = true;
        object.identity.device = inode.device;
        object.identity.inode = inode.number;
        if (saved.type == MemoryType::memfd)
            saved.name = object.path.substr(std::string_view("/memfd:").size());
    }
    return entry->second;
}

Result<std::int64_t> back(Table& table, const Description& found, const Located& place) {
    Memory& memory = memory_of(table, {inode_of(found.status)}, found.link);
    schema::Object& object = table.objects[static_cast<std::size_t>(memory.object)];
    set_name(object, place);
    if ((found.flags & O_TMPFILE) == O_TMPFILE) object.flags = O_TMPFILE;
    if (!memory.readable) {
        const bool readable = (found.flags & O_ACCMODE) != O_WRONLY && !(found.flags & (O_PATH | O_DIRECT));
        memory.readable =
            readable ? Fd(::fcntl(found.fd(), F_DUPFD_CLOEXEC, 0)) : reopen(found.fd(), O_RDONLY);
        if (!memory.readable)
            return fail_errno("is {}, which has no name any more, and can't be opened for reading",
                              found.link);
        describe_memory(object, memory.readable.get());
    }
    return object.id;
}

bool ObjectTable::is_shared_memory(const Mapping& mapping) {
    if (!mapping.shared) return false;
    const std::string& path = mapping.path;
    return mapping.deleted || path.ends_with(deleted_suffix) || type_of(path) != MemoryType::file ||
           path.starts_with("/dev/shm/") || mapping.huge_page != 0;
}

Result<std::int64_t> ObjectTable::shared_memory(const Holder& holder, const Mapping& mapping) {
    Table& table = *table_;
    const bool is_segment = type_of(mapping.path) == MemoryType::sysv;
    const std::int64_t space = is_segment ? own_ipc_of(table, holder) : -1;
    Memory& memory = memory_of(table, {{mapping.device, mapping.inode}, space, is_segment}, mapping.path);
    schema::Object& object = table.objects[static_cast<std::size_t>(memory.object)];
    if (!memory.readable && memory.mappings.empty()) {
        const bool is_file = saved_of(object).type == MemoryType::file;
        const Inode inode{mapping.device, mapping.inode};
        // sem_open(3) makes its file under another name and links it: the mapping of the process that has
        // made it shows that name, deleted, and others open it by the right one.
        Located place = is_file ? locate(mapping.path, inode) : Located{};
        // For root only (CAP_CHECKPOINT_RESTORE); then all of it can be read, not only what is mapped.
        const std::string link =
            fmt::format("/proc/{}/map_files/{:x}-{:x}", holder.pid, mapping.start, mapping.end);
        memory.readable.reset(::open(link.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
        if (!memory.readable && is_file &&
            (place.path.starts_with("/dev/shm/") || !launchers_folder(place.path).empty() ||
             (mapping.huge_page != 0 && !place.deleted)))
            memory.readable.reset(::open(place.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
        struct stat status {};
        if (memory.readable &&
            (::fstat(memory.readable.get(), &status) != 0 || status.st_ino != mapping.inode))
            memory.readable.reset();
        if (memory.readable) {
            describe_memory(object, memory.readable.get());
            // Its device may be another than the mapping tells (overlay, btrfs).
            if (is_file && place.deleted) place = locate(mapping.path, status);
            if (is_file && !place.deleted) set_name(object, place);
        }
    }
    if (mapping.huge_page != 0) saved_of(object).memfd_flags |= huge_memfd_flags(mapping.huge_page);
    if (mapping.shared && mapping.writable) object.flags = (object.flags & ~O_ACCMODE) | O_RDWR;
    memory.mappings.emplace_back(holder, mapping);
    return object.id;
}

Result<> capture_memory(Table& table, ImageWriter& writer) {
    const auto read_in = [&](std::int64_t space, int id, schema::Object& object, Store& store) {
        return in_own_space(table, space,
                            [&] { return read_segment(id, object, saved_of(object).size, store); });
    };
    for (auto& [key, memory] : table.of<MemoriesFound>().all) {
        schema::Object& object = table.objects[static_cast<std::size_t>(memory.object)];
        schema::Memory& saved = saved_of(object);
        InodeContents fresh(writer, false);
        InodeContents* ahead = table.options.copied != nullptr ? table.options.copied->find(key) : nullptr;
        if (ahead != nullptr && memory.readable && !ahead->is_seen())
            ahead->see(Sight::of(memory.readable.get(), saved.size));
        Store store(ahead != nullptr ? *ahead : fresh, saved);
        CHECK_OK(memory.readable ? read_descriptor(object, saved.size, memory.readable.get(), store)
                 : saved.type == MemoryType::sysv
                     ? read_in(key.space, static_cast<int>(key.inode.number), object, store)
                 : is_huge(saved) ? read_mapped_huge(table, object, saved, memory, store)
                                  : read_mappings(table, saved, memory, store.reading()));
        std::ranges::sort(saved.pages, {}, &schema::ObjectRun::at);
    }
    for (const auto& [id, segment, space] : table.of<MemoriesFound>().unattached) {
        schema::Object& object = table.objects[static_cast<std::size_t>(id)];
        InodeContents fresh(writer, false);
        Store store(fresh, saved_of(object));
        CHECK_OK(read_in(space, segment, object, store));
    }
    return {};
}

}  // namespace cairn::capture
