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

#include "common/proc.h"
#include "resources/file/schema_identity.h"
#include "resources/memory/capture_ahead.h"
#include "resources/memory/capture_contents.h"
#include "resources/memory/capture_huge.h"
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

// Which pages of a private mapping are the file's own: present, and of a file, or never touched.
constexpr std::uint64_t pagemap_present = 1ULL << 63, pagemap_swapped = 1ULL << 62, pagemap_file = 1ULL << 61;

// A page that is in the swap area isn't resident for mincore(2), and is there nevertheless.
bool nothing_is_swapped() {
    struct sysinfo machine {};
    return ::sysinfo(&machine) == 0 && machine.freeswap == machine.totalswap;
}

class MappingReader {
  public:
    // `holes`: pages that aren't resident were never touched, and reading them would fill them.
    static Result<MappingReader> open(const Holder& holder, const Mapping& mapping, bool holes,
                                      const ObjectOptions& options) {
        MappingReader reader;
        reader.shared_ = mapping.shared;
        // Not process_vm_readv: it refuses what the process itself may not read now, PROT_NONE for example.
        const std::string folder = proc_folder(holder);
        reader.memory_.reset(::open((folder + "mem").c_str(), O_RDONLY | O_CLOEXEC));
        if (!reader.memory_) return fail_errno("{}: memory can't be read", name_of(holder));
        if (!mapping.shared) {
            reader.pagemap_.reset(::open((folder + "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
            if (!reader.pagemap_) return fail_errno("{}: pagemap can't be read", name_of(holder));
        } else if (holes && options.mincore && nothing_is_swapped()) {
            auto resident = options.mincore(holder, mapping.start, mapping.end - mapping.start);
            if (!resident) return std::unexpected(std::move(resident.error()).in(name_of(holder)));
            reader.start_ = mapping.start;
            if (nothing_is_swapped()) {
                reader.resident_ = std::move(*resident);
                reader.find_end();
            }
        }
        return reader;
    }

    // True: the page's contents are in `to`. False: it isn't the object's own page, or was never touched.
    // Error with errno EIO or EFAULT: beyond the end of the object.
    Result<bool> read(ProgramAddress address, std::span<std::uint8_t> to) {
        if (pagemap_) {
            std::uint64_t entry = 0;
            const auto at = static_cast<off_t>(address.value() / page * sizeof entry);
            if (::pread(pagemap_.get(), &entry, sizeof entry, at) != sizeof entry)
                return fail_errno("pagemap");
            if ((entry & (pagemap_present | pagemap_swapped)) != 0 && (entry & pagemap_file) == 0)
                return false;
        }
        if (!resident_.empty()) {
            const std::uint64_t index = (address - start_) / page;
            if (index >= end_) {
                errno = EIO;
                return fail_errno("/proc/PID/mem at {:#x}", address);
            }
            if ((resident_.at(index) & 1) == 0) return false;
        }
        const ssize_t got = ::pread(memory_.get(), to.data(), to.size(), static_cast<off_t>(address.value()));
        if (got < 0) return fail_errno("/proc/PID/mem at {:#x}", address);
        return static_cast<std::size_t>(got) == to.size();
    }

  private:
    // Where the object ends that may be mapped further: a read says so. (It fills a page that was a hole.)
    void find_end() {
        const auto inside = [&](std::uint64_t index) {
            char byte = 0;
            return ::pread(memory_.get(), &byte, 1, static_cast<off_t>((start_ + index * page).value())) == 1;
        };
        std::uint64_t beyond = resident_.size();
        end_ = beyond;
        while (end_ > 0 && (resident_[end_ - 1] & 1) == 0) --end_;
        if (end_ == beyond || inside(beyond - 1)) {
            end_ = beyond;
            return;
        }
        // Every page below `end_` is inside, `beyond` - 1 isn't.
        for (--beyond; end_ < beyond;) {
            const std::uint64_t middle = end_ + (beyond - end_) / 2;
            if (inside(middle))
                end_ = middle + 1;
            else
                beyond = middle;
        }
    }

    Fd memory_, pagemap_;
    bool shared_ = false;
    std::vector<std::uint8_t> resident_;
    // Of `resident_`.
    ProgramAddress start_;
    std::uint64_t end_ = 0;  // pages
};

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

Result<> read_mappings(Table& table, schema::Memory& saved, const Memory& memory, Store& store) {
    std::vector<bool> stored;
    std::uint64_t beyond = 0;  // end of what could be read
    std::vector<std::uint8_t> piece;
    for (const auto& [holder, mapping] : memory.mappings) {
        auto reader =
            TRY(MappingReader::open(holder, mapping, saved.type != MemoryType::file, table.options));
        const std::uint64_t end = mapping.offset + (mapping.end - mapping.start);
        stored.resize(std::max<std::size_t>(stored.size(), end / page));
        std::uint64_t begin = mapping.offset;
        piece.clear();
        const auto flush = [&]() -> Result<> {
            auto done = store.put(begin, piece);
            piece.clear();
            return done;
        };
        for (std::uint64_t at = mapping.offset; at < end; at += page) {
            bool has = false;
            if (!stored[at / page]) {
                if (piece.empty()) begin = at;
                const std::size_t filled = piece.size();
                piece.resize(filled + page);
                auto got =
                    reader.read(mapping.start + (at - mapping.offset), std::span(piece).subspan(filled));
                has = got && *got;
                if (!has) piece.resize(filled);
                if (!got && (got.error().number == EIO || got.error().number == EFAULT)) break;
                if (!got) return std::unexpected(std::move(got.error()).in(name_of(holder)));
                stored[at / page] = has;
            }
            beyond = std::max(beyond, at + page);
            if (!has || piece.size() >= image_max_run) CHECK_OK(flush());
        }
        CHECK_OK(flush());
    }
    if (saved.size == 0) saved.size = beyond;
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
    const std::int64_t space = type_of(mapping.path) == MemoryType::sysv ? own_ipc_of(table, holder) : -1;
    Memory& memory = memory_of(table, {{mapping.device, mapping.inode}, space}, mapping.path);
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
            (place.path.starts_with("/dev/shm/") || (mapping.huge_page != 0 && !place.deleted)))
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
        InodeContents* ahead = table.options.copied != nullptr && key.space < 0
                                   ? table.options.copied->find(key.inode)
                                   : nullptr;
        if (ahead != nullptr && memory.readable && !ahead->is_seen())
            ahead->see(Sight::of(memory.readable.get(), saved.size));
        Store store(ahead != nullptr ? *ahead : fresh, saved);
        CHECK_OK(memory.readable ? read_descriptor(object, saved.size, memory.readable.get(), store)
                 : saved.type == MemoryType::sysv
                     ? read_in(key.space, static_cast<int>(key.inode.number), object, store)
                 : is_huge(saved) ? read_mapped_huge(table, object, saved, memory, store)
                                  : read_mappings(table, saved, memory, store));
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
