#include "cli/inspect_core.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/inspect_memory.h"
#include "cli/inspect_text.h"
#include "common/fd.h"

namespace cairn::inspect {
namespace {

constexpr std::uint64_t page = 4096;

std::uint64_t to_pages(std::uint64_t bytes) {
    return (bytes + page - 1) / page * page;
}

// A mapping, and what of it the core has: from its start on.
struct Segment {
    const schema::Area* area;
    std::uint64_t length;  // in the core
    std::uint64_t offset;
    std::vector<MemoryPiece> pieces;
};

class CoreWriter {
  public:
    CoreWriter(const Checkpoint& checkpoint, const LoadedProcess& process, std::string file)
        : checkpoint_(checkpoint),
          process_(process),
          memory_(checkpoint, process),
          file_(std::move(file)),
          unfinished_(file_ + ".unfinished") {}
    CoreWriter(const CoreWriter&) = delete;
    CoreWriter& operator=(const CoreWriter&) = delete;
    ~CoreWriter() {
        if (to_) ::unlink(unfinished_.c_str());
    }

    Result<Core> write() {
        CHECK_OK(plan());
        to_.reset(::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        if (!to_) return fail_errno("{}", unfinished_);
        CHECK_OK(put(head(), 0));
        for (const auto& segment : segments_)
            for (const auto& piece : segment.pieces) CHECK_OK(copy(segment, piece));
        if (::ftruncate(to_.get(), static_cast<off_t>(size_)) != 0) return fail_errno("{}", unfinished_);
        struct stat status {};
        if (::fsync(to_.get()) != 0 || ::fstat(to_.get(), &status) != 0) return fail_errno("{}", unfinished_);
        if (::renameat2(AT_FDCWD, unfinished_.c_str(), AT_FDCWD, file_.c_str(), RENAME_NOREPLACE) != 0) {
            if (errno == EEXIST) return is_there();
            return fail_errno("{}", file_);
        }
        to_.reset();
        return Core{file_,
                    process_.process.pid,
                    process_.process.name,
                    size_,
                    static_cast<std::uint64_t>(status.st_blocks) * 512,
                    memory_.unknown_files()};
    }

    [[nodiscard]] std::unexpected<Error> is_there() const {
        return fail_code(ExitCode::refused, "{} is there already: remove it, or give the core another name",
                         file_);
    }

  private:
    // What a file's pages are debuggers find in the file, by NT_FILE; of ELF files the first page, which has
    // the build id, tells whether it is the right one.
    Result<std::uint64_t> length_in_core(const schema::Area& area) {
        using Kind = schema::AreaKind;
        const std::uint64_t all = area.end - area.start;
        if (area.dont_dump || area.kind == Kind::vvar || area.kind == Kind::region) return 0;
        if (area.kind == Kind::anonymous || area.kind == Kind::shared_memory || area.kind == Kind::vdso)
            return all;
        if (area.kind == Kind::file_shared) return 0;
        if (!area.pages.empty() || area.borrowed) return all;
        const std::string begin = TRY(memory_.read(area.start, SELFMAG));
        return area.file_offset == 0 && begin == ELFMAG ? page : 0;
    }

    Result<> plan() {
        notes_ = core_notes(checkpoint_, process_);
        const auto& areas = process_.process.areas;
        headers_ = areas.size() + 1;
        size_ = to_pages(notes_at() + notes_.size());
        for (const auto& area : areas) {
            const std::uint64_t length = TRY(length_in_core(area));
            Segment& segment = segments_.emplace_back(Segment{&area, length, size_, {}});
            if (length != 0) segment.pieces = TRY(memory_.pieces_of(area));
            size_ += length;
        }
        return {};
    }

    // Behind the program headers stands a section header where their number is too great for its field.
    [[nodiscard]] bool many_headers() const { return headers_ >= PN_XNUM; }
    [[nodiscard]] std::uint64_t sections_at() const {
        return sizeof(Elf64_Ehdr) + headers_ * sizeof(Elf64_Phdr);
    }
    [[nodiscard]] std::uint64_t notes_at() const {
        return sections_at() + (many_headers() ? sizeof(Elf64_Shdr) : 0);
    }

    [[nodiscard]] std::string head() const {
        std::string text;
        const auto add = [&](const auto& value) {
            text.append(reinterpret_cast<const char*>(&value), sizeof value);
        };
        Elf64_Ehdr header{};
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_ident[EI_DATA] = ELFDATA2LSB;
        header.e_ident[EI_VERSION] = EV_CURRENT;
        header.e_type = ET_CORE;
        header.e_machine = EM_X86_64;
        header.e_version = EV_CURRENT;
        header.e_phoff = header.e_ehsize = sizeof header;
        header.e_phentsize = sizeof(Elf64_Phdr);
        header.e_phnum = static_cast<Elf64_Half>(many_headers() ? PN_XNUM : headers_);
        if (many_headers()) {
            header.e_shoff = sections_at();
            header.e_shentsize = sizeof(Elf64_Shdr);
            header.e_shnum = 1;
        }
        add(header);
        add(Elf64_Phdr{.p_type = PT_NOTE,
                       .p_flags = 0,
                       .p_offset = notes_at(),
                       .p_vaddr = 0,
                       .p_paddr = 0,
                       .p_filesz = notes_.size(),
                       .p_memsz = 0,
                       .p_align = 4});
        for (const auto& segment : segments_) add(header_of(segment));
        if (many_headers()) {
            Elf64_Shdr real_number{};
            real_number.sh_info = static_cast<Elf64_Word>(headers_);
            add(real_number);
        }
        return text + notes_;
    }

    static Elf64_Phdr header_of(const Segment& segment) {
        const auto prot = segment.area->prot;
        const auto flag = [&](int has, unsigned is) { return (prot & has) != 0 ? is : 0U; };
        return {.p_type = PT_LOAD,
                .p_flags = flag(PROT_READ, PF_R) | flag(PROT_WRITE, PF_W) | flag(PROT_EXEC, PF_X),
                .p_offset = segment.offset,
                .p_vaddr = segment.area->start.value(),
                .p_paddr = 0,
                .p_filesz = segment.length,
                .p_memsz = segment.area->end - segment.area->start,
                .p_align = page};
    }

    Result<> put(std::string_view bytes, std::uint64_t offset) {
        while (!bytes.empty()) {
            const ssize_t written =
                ::pwrite(to_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) return fail_errno("{}", unfinished_);
            offset += static_cast<std::uint64_t>(written);
            bytes.remove_prefix(static_cast<std::size_t>(written));
        }
        return {};
    }

    // Zeros are a hole.
    Result<> copy(const Segment& segment, const MemoryPiece& piece) {
        const std::uint64_t from = piece.at - segment.area->start;
        if (piece.source == nullptr || from >= segment.length) return {};
        const std::uint64_t length = std::min(piece.length, segment.length - from);
        std::string buffer(std::size_t{1} << 18, '\0');
        for (std::uint64_t done = 0; done < length;) {
            const auto some = std::min<std::uint64_t>(buffer.size(), length - done);
            CHECK_OK(piece.source->read(piece.offset + done, writable(buffer).first(some)));
            CHECK_OK(put({buffer.data(), some}, segment.offset + from + done));
            done += some;
        }
        return {};
    }

    const Checkpoint& checkpoint_;
    const LoadedProcess& process_;
    ProcessMemory memory_;
    std::string file_, unfinished_, notes_;
    std::vector<Segment> segments_;
    std::uint64_t headers_ = 0, size_ = 0;
    Fd to_;
};

}  // namespace

Result<Core> write_core(const Checkpoint& checkpoint, const LoadedProcess& process, const std::string& file) {
    if (process.process.run == schema::Run::zombie)
        return fail_code(ExitCode::refused, "process {} ({}) is a zombie: it has no memory and no threads",
                         process.process.pid, process.process.name);
    CoreWriter writer(checkpoint, process, file);
    if (::access(file.c_str(), F_OK) == 0) return writer.is_there();
    return writer.write();
}

std::string as_text(const std::vector<Core>& cores) {
    std::string text;
    for (const Core& core : cores) {
        text += fmt::format("{} ({}): {}, {} of {} stored\n", core.pid, printable(core.name),
                            printable(core.file), human_size(core.stored), human_size(core.bytes));
        for (const auto& file : core.unknown_files)
            text += fmt::format("  {} is gone, or has changed since: its pages aren't in the core\n",
                                printable(file));
    }
    return text;
}

nlohmann::json as_json(const std::vector<Core>& cores) {
    auto list = nlohmann::json::array();
    for (const Core& core : cores)
        list.push_back({{"pid", core.pid.number()},
                        {"name", core.name},
                        {"file", core.file},
                        {"bytes", core.bytes},
                        {"stored", core.stored},
                        {"unknown_files", core.unknown_files}});
    return {{"cores", std::move(list)}};
}

}  // namespace cairn::inspect
