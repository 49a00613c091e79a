#include "capture/go_program.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/fd.h"

namespace cairn::capture {
namespace {

template <class T>
bool read_elf(const Fd& file, std::uint64_t at, T* to, std::size_t count) {
    return ::pread(file.get(), to, count * sizeof(T), static_cast<off_t>(at)) ==
           static_cast<ssize_t>(count * sizeof(T));
}

constexpr std::uint64_t whole_words(std::uint64_t size) {
    return (size + 3) / 4 * 4;
}

bool has_go_note(const Fd& file, const Elf64_Phdr& segment) {
    for (std::uint64_t at = 0; at + sizeof(Elf64_Nhdr) < segment.p_filesz;) {
        struct {
            Elf64_Nhdr header;
            std::array<char, 4> name;
        } note{};
        if (!read_elf(file, segment.p_offset + at, &note, 1)) return false;
        constexpr std::array<char, 4> name = {'G', 'o', 0, 0};
        if (note.header.n_namesz == name.size() && note.name == name) return true;
        at += sizeof note.header + whole_words(note.header.n_namesz) + whole_words(note.header.n_descsz);
    }
    return false;
}

bool look(const Fd& file) {
    Elf64_Ehdr elf{};
    constexpr std::size_t most_segments = 64;
    if (!read_elf(file, 0, &elf, 1) || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_phnum > most_segments || elf.e_phentsize != sizeof(Elf64_Phdr))
        return false;
    std::vector<Elf64_Phdr> segments(elf.e_phnum);
    if (!read_elf(file, elf.e_phoff, segments.data(), segments.size())) return false;
    for (const Elf64_Phdr& segment : segments)
        if (segment.p_type == PT_NOTE && has_go_note(file, segment)) return true;
    return false;
}

}  // namespace

// Everybody stands still meanwhile, and most are of the same few files.
bool is_go_program(pid_t pid) {
    static std::map<std::pair<dev_t, ino_t>, bool> known;
    const auto link = fmt::format("/proc/{}/exe", pid);
    struct stat status {};
    if (::stat(link.c_str(), &status) != 0) return false;
    const auto [found, fresh] = known.try_emplace({status.st_dev, status.st_ino}, false);
    if (fresh) {
        const Fd file(::open(link.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
        found->second = file && look(file);
    }
    return found->second;
}

}  // namespace cairn::capture
