#include "resources/memory/capture_mappings.h"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

#include "common/helper_threads.h"

namespace cairn::capture {
namespace {

using schema::MemoryType;

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
        reader.pid_ = holder.tid != 0 ? holder.tid : holder.pid;
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
            const auto at = static_cast<off_t>(address.value() / image_page * sizeof entry);
            if (::pread(pagemap_.get(), &entry, sizeof entry, at) != sizeof entry)
                return fail_errno("pagemap");
            if ((entry & (pagemap_present | pagemap_swapped)) != 0 && (entry & pagemap_file) == 0)
                return false;
        }
        if (!resident_.empty()) {
            const std::uint64_t index = (address - start_) / image_page;
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

    // Whether every page of [start, start + bytes) was touched by somebody, and is the object's: they can be
    // read at once.
    [[nodiscard]] bool are_there(ProgramAddress start, std::uint64_t bytes) const {
        if (pagemap_ || resident_.empty()) return false;
        const std::uint64_t first = (start - start_) / image_page, behind = first + bytes / image_page;
        if (behind > end_) return false;
        return std::all_of(resident_.begin() + static_cast<std::ptrdiff_t>(first),
                           resident_.begin() + static_cast<std::ptrdiff_t>(behind),
                           [](std::uint8_t each) { return (each & 1) != 0; });
    }

    // Many pages at once. False: not all of them could be read. Thread-safe.
    [[nodiscard]] bool read_many(ProgramAddress start, std::span<std::uint8_t> to) const {
        const iovec mine{to.data(), to.size()};
        const iovec theirs{reinterpret_cast<void*>(start.value()), to.size()};
        const auto all = static_cast<ssize_t>(to.size());
        // Twice as fast as the file, but for what the process may not read itself now.
        return ::process_vm_readv(pid_, &mine, 1, &theirs, 1, 0) == all ||
               ::pread(memory_.get(), to.data(), to.size(), static_cast<off_t>(start.value())) == all;
    }

  private:
    // Where the object ends that may be mapped further: a read says so. (It fills a page that was a hole.)
    void find_end() {
        const auto inside = [&](std::uint64_t index) {
            char byte = 0;
            return ::pread(memory_.get(), &byte, 1,
                           static_cast<off_t>((start_ + index * image_page).value())) == 1;
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
    pid_t pid_ = 0;
    std::vector<std::uint8_t> resident_;
    // Of `resident_`.
    ProgramAddress start_;
    std::uint64_t end_ = 0;  // pages
};

// The object's pages that have been stored already: a byte for each, so that threads can set them side by
// side.
using StoredPages = std::vector<std::uint8_t>;

// What can be read in whole blocks of the mapping, by two threads. What can't is left.
class Blocks {
  public:
    Blocks(const MappingReader& reader, const Mapping& mapping, const Reading& reading, StoredPages& stored)
        : reader_(reader), mapping_(mapping), reading_(reading), stored_(stored) {}

    Result<> read() {
        const auto block = reading_.block, end = mapping_.offset + (mapping_.end - mapping_.start);
        for (auto at = (mapping_.offset + block - 1) / block * block; at + block <= end; at += block) {
            const auto first = stored_.begin() + static_cast<std::ptrdiff_t>(at / image_page);
            const auto behind = first + static_cast<std::ptrdiff_t>(block / image_page);
            if (std::none_of(first, behind, [](auto each) { return each != 0; }) &&
                reader_.are_there(address_of(at), block))
                blocks_.push_back(at);
        }
        const auto help = [this] { work(); };
        {
            const auto other = helper_threads(blocks_.size() > 4 ? 1 : 0, help);
            work();
        }
        if (problem_) return std::unexpected(std::move(*problem_));
        return {};
    }

  private:
    [[nodiscard]] ProgramAddress address_of(std::uint64_t at) const {
        return mapping_.start + (at - mapping_.offset);
    }

    void work() {
        std::vector<std::uint8_t> piece(reading_.block);
        for (;;) {
            const auto index = next_.fetch_add(1);
            if (index >= blocks_.size()) return;
            const auto at = blocks_[index];
            if (!reader_.read_many(address_of(at), piece)) continue;
            if (auto done = reading_.put(at, piece); !done) {
                const std::scoped_lock lock(mutex_);
                if (!problem_) problem_ = std::move(done.error());
                next_ = blocks_.size();
                return;
            }
            std::fill_n(stored_.begin() + static_cast<std::ptrdiff_t>(at / image_page),
                        piece.size() / image_page, std::uint8_t{1});
        }
    }

    const MappingReader& reader_;
    const Mapping& mapping_;
    const Reading& reading_;
    StoredPages& stored_;
    std::vector<std::uint64_t> blocks_;
    std::atomic<std::size_t> next_ = 0;
    std::mutex mutex_;
    std::optional<Error> problem_;
};

}  // namespace

Result<> read_mappings(Table& table, schema::Memory& saved, const Memory& memory, const Reading& reading) {
    StoredPages stored;
    std::uint64_t beyond = 0;  // end of what could be read
    std::vector<std::uint8_t> piece;
    for (const auto& [holder, mapping] : memory.mappings) {
        auto reader =
            TRY(MappingReader::open(holder, mapping, saved.type != MemoryType::file, table.options));
        const std::uint64_t end = mapping.offset + (mapping.end - mapping.start);
        stored.resize(std::max<std::size_t>(stored.size(), end / image_page));
        CHECK_OK(Blocks(reader, mapping, reading, stored).read());
        std::uint64_t begin = mapping.offset;
        piece.clear();
        const auto flush = [&]() -> Result<> {
            auto done = reading.put(begin, piece);
            piece.clear();
            return done;
        };
        for (std::uint64_t at = mapping.offset; at < end; at += image_page) {
            bool has = false;
            if (stored[at / image_page] == 0) {
                if (piece.empty()) begin = at;
                const std::size_t filled = piece.size();
                piece.resize(filled + image_page);
                auto got =
                    reader.read(mapping.start + (at - mapping.offset), std::span(piece).subspan(filled));
                has = got && *got;
                if (!has) piece.resize(filled);
                if (!got && (got.error().number == EIO || got.error().number == EFAULT)) break;
                if (!got) return std::unexpected(std::move(got.error()).in(name_of(holder)));
                stored[at / image_page] = has ? 1 : 0;
            }
            beyond = std::max(beyond, at + image_page);
            if (!has || piece.size() >= image_max_run) CHECK_OK(flush());
        }
        CHECK_OK(flush());
    }
    if (saved.size == 0) saved.size = beyond;
    return {};
}

}  // namespace cairn::capture
