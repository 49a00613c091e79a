#include "common/vdso.h"

#include <elf.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/proc.h"

namespace cairn {
namespace {

constexpr std::string_view prefix = "__vdso_";

// Reads of an object of which nothing is trusted.
class Bytes {
  public:
    explicit Bytes(std::span<const std::byte> all) : all_(all) {}

    template <class T>
    [[nodiscard]] std::optional<T> at(std::uint64_t offset) const {
        if (offset > all_.size() || all_.size() - offset < sizeof(T)) return {};
        T object;
        std::memcpy(&object, all_.data() + offset, sizeof object);
        return object;
    }

    [[nodiscard]] std::string text(std::uint64_t offset) const {
        std::string found;
        for (auto c = at<char>(offset); c && *c != '\0'; c = at<char>(++offset)) found += *c;
        return found;
    }

  private:
    std::span<const std::byte> all_;
};

// What the dynamic section leads to, as offsets from the start.
struct Tables {
    std::uint64_t symbols = 0, strings = 0, hash = 0, gnu_hash = 0;
};

std::optional<Tables> find_tables(const Bytes& bytes) {
    const auto head = bytes.at<Elf64_Ehdr>(0);
    if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64)
        return {};
    std::optional<Elf64_Phdr> load, dynamic;
    for (unsigned i = 0; i < head->e_phnum; ++i) {
        const auto segment = bytes.at<Elf64_Phdr>(head->e_phoff + i * sizeof(Elf64_Phdr));
        if (!segment) return {};
        if (segment->p_type == PT_LOAD && !load) load = segment;
        if (segment->p_type == PT_DYNAMIC) dynamic = segment;
    }
    if (!load || !dynamic) return {};
    Tables tables;
    const auto offset_of = [&](std::uint64_t address) { return address - load->p_vaddr + load->p_offset; };
    for (std::uint64_t at = dynamic->p_offset;; at += sizeof(Elf64_Dyn)) {
        const auto entry = bytes.at<Elf64_Dyn>(at);
        if (!entry) return {};
        if (entry->d_tag == DT_NULL) break;
        if (entry->d_tag == DT_SYMTAB) tables.symbols = offset_of(entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) tables.strings = offset_of(entry->d_un.d_ptr);
        if (entry->d_tag == DT_HASH) tables.hash = offset_of(entry->d_un.d_ptr);
        if (entry->d_tag == DT_GNU_HASH) tables.gnu_hash = offset_of(entry->d_un.d_ptr);
    }
    return tables;
}

// Kernels have had one table of hashes, or both, by version and configuration; neither says of symbols that
// are only wanted how many there are, but a vdso wants none.
std::uint32_t count_symbols(const Bytes& bytes, const Tables& tables) {
    struct GnuHash {
        std::uint32_t buckets, first, bloom, shift;
    };
    if (tables.hash != 0) {
        const auto chains = bytes.at<std::uint32_t>(tables.hash + sizeof(std::uint32_t));
        return chains.value_or(0);
    }
    const auto head = tables.gnu_hash != 0 ? bytes.at<GnuHash>(tables.gnu_hash) : std::nullopt;
    if (!head) return 0;
    const auto buckets = tables.gnu_hash + sizeof *head + std::uint64_t{head->bloom} * sizeof(std::uint64_t);
    const auto chains = buckets + std::uint64_t{head->buckets} * sizeof(std::uint32_t);
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < head->buckets; ++i) {
        const auto bucket = bytes.at<std::uint32_t>(buckets + std::uint64_t{i} * sizeof(std::uint32_t));
        if (!bucket) return 0;
        last = std::max(last, *bucket);
    }
    if (last < head->first) return 0;
    for (;; ++last) {  // the chain's end has its lowest bit set
        const auto hash = bytes.at<std::uint32_t>(chains + std::uint64_t{last - head->first} * sizeof last);
        if (!hash) return 0;
        if ((*hash & 1) != 0) return last + 1;
    }
}

}  // namespace

Result<std::vector<VdsoFunction>> vdso_functions(std::span<const std::byte> image) {
    const Bytes bytes(image);
    const auto tables = find_tables(bytes);
    if (!tables || tables->symbols == 0 || tables->strings == 0) return fail("no vdso, or a damaged one");
    std::vector<VdsoFunction> functions;
    const auto count = count_symbols(bytes, *tables);
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto symbol = bytes.at<Elf64_Sym>(tables->symbols + std::uint64_t{i} * sizeof(Elf64_Sym));
        if (!symbol) return fail("a damaged vdso: its symbols lead out of it");
        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF) continue;
        const auto name = bytes.text(tables->strings + symbol->st_name);
        if (!name.starts_with(prefix)) continue;
        if (symbol->st_value >= image.size() || symbol->st_size > image.size() - symbol->st_value)
            return fail("a damaged vdso: {} leads out of it", name);
        functions.push_back({name, symbol->st_value, symbol->st_size});
    }
    return functions;
}

std::span<const std::byte> running_vdso() {
    static const auto found = [] {
        const auto start = ::getauxval(AT_SYSINFO_EHDR);
        std::span<const std::byte> bytes;
        const auto lines = proc::maps(::getpid(), false);
        if (start == 0 || !lines) return bytes;
        const auto line = std::ranges::find(*lines, ProgramAddress(start), &proc::MapLine::start);
        if (line != lines->end())
            bytes = {reinterpret_cast<const std::byte*>(start), line->end - line->start};
        return bytes;
    }();
    return found;
}

}  // namespace cairn
