#include "capture/own_library.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/fd.h"

namespace cairn::capture {
namespace {

// As hijack/agent/agent.cpp writes it.
constexpr char note_name[] = "CAIRN";
constexpr Elf64_Word door_note = 1;

template <class T>
bool read_at(const Fd& file, std::uint64_t at, T* to, std::size_t count) {
    const auto size = static_cast<ssize_t>(count * sizeof(T));
    return ::pread(file.get(), to, count * sizeof(T), static_cast<off_t>(at)) == size;
}

constexpr std::uint64_t aligned(std::uint64_t size) {
    return (size + 3) / 4 * 4;
}

struct Places {
    std::int64_t door = 0, entry = 0, finish = 0, park = 0, take = 0;  // behind the first of these words
};

// In one segment of notes; elf(5), Notes. True: it was there.
bool find_places(const Fd& file, const Elf64_Phdr& segment, OwnLibrary& library) {
    for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= segment.p_filesz;) {
        Elf64_Nhdr note{};
        if (!read_at(file, segment.p_offset + at, &note, 1)) return false;
        const std::uint64_t name = at + sizeof note, words = name + aligned(note.n_namesz);
        char text[sizeof note_name] = {};
        Places behind;
        if (note.n_type == door_note && note.n_namesz == sizeof note_name && note.n_descsz == sizeof behind &&
            read_at(file, segment.p_offset + name, text, sizeof text) &&
            std::memcmp(text, note_name, sizeof text) == 0 &&
            read_at(file, segment.p_offset + words, &behind, 1)) {
            const std::uint64_t here = segment.p_vaddr + words;
            library.door = here + static_cast<std::uint64_t>(behind.door);
            library.entry = here + static_cast<std::uint64_t>(behind.entry);
            library.finish = here + static_cast<std::uint64_t>(behind.finish);
            library.park = here + static_cast<std::uint64_t>(behind.park);
            library.take = here + static_cast<std::uint64_t>(behind.take);
            return true;
        }
        at = words + aligned(note.n_descsz);
    }
    return false;
}

int protection_of(const Elf64_Phdr& segment) {
    return ((segment.p_flags & PF_R) != 0 ? PROT_READ : 0) |
           ((segment.p_flags & PF_W) != 0 ? PROT_WRITE : 0) | ((segment.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
}

}  // namespace

Result<OwnLibrary> OwnLibrary::read(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return fail_errno("{}", path);
    constexpr std::size_t page = 4096;
    void* at = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (at == MAP_FAILED) return fail_errno("{}: mmap", path);
    OwnLibrary library;
    library.path = path;
    library.file = mapped_file(at);
    ::munmap(at, page);
    Elf64_Ehdr elf{};
    constexpr std::size_t most_segments = 64;
    if (!read_at(file, 0, &elf, 1) || elf.e_phnum > most_segments || elf.e_phentsize != sizeof(Elf64_Phdr))
        return fail("{}: no library of ours", path);
    std::vector<Elf64_Phdr> segments(elf.e_phnum);
    if (!read_at(file, elf.e_phoff, segments.data(), segments.size()))
        return fail("{}: no library of ours", path);
    bool found = false;
    for (const Elf64_Phdr& segment : segments) {
        if (segment.p_type == PT_LOAD)
            library.segments.push_back({segment.p_vaddr, segment.p_offset, segment.p_filesz, segment.p_memsz,
                                        protection_of(segment)});
        if (segment.p_type == PT_NOTE && find_places(file, segment, library)) found = true;
    }
    if (found && !library.segments.empty()) return library;
    return fail("{}: of another version, it doesn't say where its door is", path);
}

ProgramAddress OwnLibrary::door_in(const std::vector<proc::MapLine>& maps) const {
    const auto first = std::ranges::find_if(
        maps, [&](const proc::MapLine& line) { return line.offset == 0 && shows(line, file); });
    return first == maps.end() ? ProgramAddress() : first->start + door;
}

}  // namespace cairn::capture
