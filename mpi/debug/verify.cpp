#include "mpi/debug/verify.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace cairn::mpi::debug {
namespace {

struct Part {
    std::uint64_t begin = 0, end = 0;
    std::string name;
    bool operator==(const Part&) const = default;
};

std::vector<Part> parts_of(pid_t pid, std::uint64_t frame) {
    char program[PATH_MAX] = {};
    static_cast<void>(!::readlink(fmt::format("/proc/{}/exe", pid).c_str(), program, sizeof program - 1));
    std::vector<Part> parts;
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    bool of_library = false;
    for (std::string line; std::getline(maps, line);) {
        char* at = nullptr;
        Part part;
        part.begin = std::strtoull(line.c_str(), &at, 16);
        part.end = std::strtoull(at + 1, &at, 16);
        const std::string rights(at + 1, 4);
        const std::size_t slash = line.find_first_of("/[", static_cast<std::size_t>(at - line.c_str()) + 5);
        part.name = slash == std::string::npos ? "" : line.substr(slash);
        // Behind a library's data is the rest of its data, which has no name.
        const bool rest = of_library && part.name.empty();
        of_library = rest || (part.name.starts_with("/") && part.name != program);
        if (rights[1] != 'w' || rights[3] != 'p' || of_library) continue;
        if (part.name == "[stack]") {
            if (frame < part.begin || frame >= part.end) continue;
            part.begin = frame;
        }
        if (part.name.empty()) part.name = "memory";
        // A heap that grows in a copy gets a mapping of its own for what comes on, where that of the parent
        // would have grown (Linux, mm/vma.c). So where one ends and the next begins tells when it was copied,
        // and not what the program has.
        if (!parts.empty() && parts.back().end == part.begin && parts.back().name == part.name)
            parts.back().end = part.end;
        else
            parts.push_back(part);
    }
    return parts;
}

Result<> read(pid_t pid, std::uint64_t at, std::vector<char>& into) {
    const iovec here{into.data(), into.size()}, there{reinterpret_cast<void*>(at), into.size()};
    if (::process_vm_readv(pid, &here, 1, &there, 1, 0) != static_cast<ssize_t>(into.size()))
        return fail_errno("reading the memory of process {} at {:#x}", pid, at);
    return {};
}

std::uint64_t word(const std::vector<char>& bytes, std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, &bytes[at], sizeof value);
    return value;
}

}  // namespace

Result<Compared> compare(pid_t one, pid_t other, std::uint64_t frame) {
    Compared compared;
    constexpr std::size_t most = 16;
    const std::vector<Part> parts = parts_of(one, frame), others = parts_of(other, frame);
    if (parts != others) {
        for (const Part& each : parts)
            if (std::find(others.begin(), others.end(), each) == others.end())
                compared.differences.push_back(
                    fmt::format("{} {:#x} to {:#x}, only in one", each.name, each.begin, each.end));
        if (compared.differences.empty()) compared.differences.emplace_back("memory that only the other has");
        return compared;
    }
    std::vector<char> mine, its;
    for (const Part& part : parts)
        for (std::uint64_t at = part.begin; at < part.end; at += mine.size()) {
            mine.resize(std::min<std::uint64_t>(part.end - at, 1U << 20));
            its.resize(mine.size());
            CHECK_OK(read(one, at, mine));
            CHECK_OK(read(other, at, its));
            compared.bytes += mine.size();
            if (std::memcmp(mine.data(), its.data(), mine.size()) == 0) continue;
            for (std::size_t i = 0; i + 8 <= mine.size(); i += 8)
                if (std::memcmp(&mine[i], &its[i], 8) != 0 && compared.differences.size() < most)
                    compared.differences.push_back(fmt::format("{} {:#x}: {:016x}, straight {:016x}",
                                                               part.name, at + i, word(mine, i),
                                                               word(its, i)));
        }
    return compared;
}

}  // namespace cairn::mpi::debug
