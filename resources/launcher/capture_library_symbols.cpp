#include "resources/launcher/capture_library_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/fd.h"
#include "common/proc.h"

namespace cairn::capture {
namespace {

// No library's tables are larger.
constexpr std::uint64_t largest_table = 64U << 20;

class Library {
  public:
    Library(Fd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

    // `start`: where its first byte is mapped; a library's first segment begins at address 0 of its own.
    Result<LibrarySymbols> exported(std::span<const std::string_view> names, ProgramAddress start) {
        auto header = TRY(items<Elf64_Ehdr>(0, 1));
        const Elf64_Ehdr& elf = header.front();
        if (std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
            elf.e_shentsize != sizeof(Elf64_Shdr))
            return fail("{}: no ELF file of this machine", path_);
        auto sections = TRY(items<Elf64_Shdr>(elf.e_shoff, elf.e_shnum));
        const auto table = std::ranges::find(sections, Elf64_Word{SHT_DYNSYM}, &Elf64_Shdr::sh_type);
        if (table == sections.end() || table->sh_link >= sections.size())
            return fail("{}: exports nothing", path_);
        const Elf64_Shdr& strings = sections[table->sh_link];
        auto symbols = TRY(items<Elf64_Sym>(table->sh_offset, table->sh_size / sizeof(Elf64_Sym)));
        auto text = TRY(items<char>(strings.sh_offset, strings.sh_size));
        text.push_back('\0');
        LibrarySymbols found;
        for (const Elf64_Sym& symbol : symbols) {
            if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= text.size()) continue;
            const std::string_view name(text.data() + symbol.st_name);
            if (std::ranges::find(names, name) != names.end())
                found.emplace(name, LibrarySymbol{start + symbol.st_value, symbol.st_size});
        }
        return found;
    }

  private:
    template <class T>
    Result<std::vector<T>> items(std::uint64_t at, std::uint64_t count) {
        if (count > largest_table / sizeof(T)) return fail("{}: damaged", path_);
        std::vector<T> result(count);
        const auto size = static_cast<ssize_t>(count * sizeof(T));
        const ssize_t got = ::pread(file_.get(), result.data(), count * sizeof(T), static_cast<off_t>(at));
        if (got < 0) return fail_errno("{}", path_);
        if (got != size) return fail("{}: ends too early", path_);
        return result;
    }

    Fd file_;
    std::string path_;
};

}  // namespace

Result<LibrarySymbols> library_symbols(pid_t pid, std::string_view library,
                                       std::span<const std::string_view> names) {
    auto maps = TRY(proc::maps(pid, false));
    const auto first = std::ranges::find_if(maps, [&](const proc::MapLine& line) {
        return line.offset == 0 && line.inode != 0 &&
               std::string_view(line.name).substr(line.name.rfind('/') + 1).starts_with(library);
    });
    if (first == maps.end()) return LibrarySymbols();
    Fd file(::open(fmt::format("/proc/{}/root{}", pid, first->name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return fail_errno("{}", first->name);
    struct stat status {};
    if (first->deleted || ::fstat(file.get(), &status) != 0 || status.st_ino != first->inode)
        return fail("{}: has been replaced since it was mapped", first->name);
    return Library(std::move(file), first->name).exported(names, first->start);
}

}  // namespace cairn::capture
