#include "mpi/record/format.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "common/fd.h"
#include "common/image/hash.h"

namespace cairn::mpi {

const char* name(Column column) {
    static constexpr const char* names[] = {"position", "source", "tag",        "probe source", "probe tag",
                                            "falses",   "index",  "hits",       "call",         "new call",
                                            "new site", "module", "cancelled",  "notes",        "content",
                                            "turn",     "run",    "new thread", "order",        "clock"};
    static_assert(sizeof names / sizeof *names == columns);
    return names[static_cast<std::size_t>(column)];
}

std::uint64_t hash_of(const void* data, std::size_t size) {
    return hash64({static_cast<const std::uint8_t*>(data), size});
}

namespace {

struct FileHeader {
    std::uint64_t magic = record_magic;
    std::uint32_t version = record_version;
    std::uint32_t bytes = 0;
    std::uint64_t checksum = 0;
};
constexpr std::uint32_t most_text = 1U << 20;

// One line each; what would break a line is left out.
std::string one_line(std::string text) {
    for (char& c : text)
        if (c == '\n') c = ' ';
    return text;
}

}  // namespace

std::string encode_header(const Identity& identity) {
    const std::string text = fmt::format(
        "job {}\nrank {}\nsize {}\nmpi {}\nprogram {}\nbuild {}\narguments {}\ncontents {}\nclock "
        "{}\nthreads {}\n",
        identity.job, identity.rank, identity.size, identity.mpi, one_line(identity.program), identity.build,
        one_line(identity.arguments), identity.contents ? 1 : 0, identity.clock ? 1 : 0,
        identity.threads ? 1 : 0);
    FileHeader header;
    header.bytes = static_cast<std::uint32_t>(text.size());
    header.checksum = hash_of(text.data(), text.size());
    std::string bytes(sizeof header, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes + text;
}

Result<Identity> decode_header(const std::string& bytes, std::size_t& used) {
    FileHeader header;
    if (bytes.size() < sizeof header) return fail_code(ExitCode::damaged, "it is cut off in its header");
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.magic != record_magic)
        return fail_code(ExitCode::damaged, "it is no record of an MPI program");
    if (header.version != record_version)
        return fail_code(ExitCode::damaged, "it is a record of version {}; this cairn reads version {}",
                         header.version, record_version);
    if (header.bytes > most_text || bytes.size() < sizeof header + header.bytes)
        return fail_code(ExitCode::damaged, "it is cut off in its header");
    const std::string text = bytes.substr(sizeof header, header.bytes);
    if (hash_of(text.data(), text.size()) != header.checksum)
        return fail_code(ExitCode::damaged, "its header is damaged: the checksum doesn't match");
    Identity identity;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t space = line.find(' ');
        const std::string key = line.substr(0, space);
        const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
        if (key == "job") identity.job = std::strtoull(value.c_str(), nullptr, 10);
        if (key == "rank") identity.rank = static_cast<int>(std::strtol(value.c_str(), nullptr, 10));
        if (key == "size") identity.size = static_cast<int>(std::strtol(value.c_str(), nullptr, 10));
        if (key == "mpi") identity.mpi = value;
        if (key == "program") identity.program = value;
        if (key == "build") identity.build = value;
        if (key == "arguments") identity.arguments = value;
        if (key == "contents") identity.contents = value == "1";
        if (key == "clock") identity.clock = value == "1";
        if (key == "threads") identity.threads = value == "1";
    }
    if (identity.size < 1 || identity.rank < 0 || identity.rank >= identity.size)
        return fail_code(ExitCode::damaged, "its header makes no sense: rank {} of {}", identity.rank,
                         identity.size);
    used = sizeof header + header.bytes;
    return identity;
}

Result<std::string> build_of(const std::string& path) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0) return fail_errno("opening {}", path);
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size == 0) return std::string("empty");
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapped == MAP_FAILED) return fail_errno("mapping {}", path);
    const auto* data = static_cast<const unsigned char*>(mapped);
    std::string build;
    Elf64_Ehdr elf;
    if (size >= sizeof elf) {
        std::memcpy(&elf, data, sizeof elf);
        const bool is_elf =
            std::memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_ident[EI_CLASS] == ELFCLASS64;
        for (unsigned i = 0; is_elf && build.empty() && i < elf.e_phnum; ++i) {
            Elf64_Phdr part;
            const std::uint64_t at = elf.e_phoff + i * sizeof part;
            if (at > size || size - at < sizeof part) break;
            std::memcpy(&part, data + at, sizeof part);
            if (part.p_type != PT_NOTE || part.p_offset > size || size - part.p_offset < part.p_filesz)
                continue;
            for (std::uint64_t n = 0; n + sizeof(Elf64_Nhdr) <= part.p_filesz;) {
                Elf64_Nhdr note;
                std::memcpy(&note, data + part.p_offset + n, sizeof note);
                const std::uint64_t name = n + sizeof note;
                const std::uint64_t desc = name + ((std::uint64_t{note.n_namesz} + 3) & ~std::uint64_t{3});
                const std::uint64_t next = desc + ((std::uint64_t{note.n_descsz} + 3) & ~std::uint64_t{3});
                if (next > part.p_filesz) break;
                if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                    std::memcmp(data + part.p_offset + name, "GNU", 4) == 0)
                    for (std::uint32_t k = 0; k < note.n_descsz; ++k)
                        build += fmt::format("{:02x}", data[part.p_offset + desc + k]);
                n = next;
            }
        }
    }
    if (build.empty()) build = fmt::format("xxh3-{:016x}", hash_of(data, size));
    ::munmap(mapped, size);
    return build;
}

std::string record_path(const std::string& folder, int rank) {
    return fmt::format("{}/rank.{}", folder, rank);
}

std::string tail_path(const std::string& folder, int rank) {
    return fmt::format("{}/tail.{}", folder, rank);
}

}  // namespace cairn::mpi
