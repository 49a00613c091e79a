#include "witness/memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

#include "common/fd.h"
#include "witness/proc_text.h"

namespace cairn::witness {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t largest =
    256 << 20;  // of larger mappings the content isn't read: a look must not take minutes
constexpr std::uint64_t single_pages =
    4096;  // up to so many each page is a fact of its own, so that what moves by itself hides little

// Bits of an entry of pagemap (Documentation/admin-guide/mm/pagemap.rst).
constexpr std::uint64_t present = 1ULL << 63U, swapped = 1ULL << 62U, of_file = 1ULL << 61U,
                        exclusive = 1ULL << 56U,
                        guard = 1ULL << 58U;  // since Linux 6.15

using Marks = std::map<std::string, std::string>;

// As rules.cpp has it: flags of mappings that the kernel joins all the same.
Marks that_keep_apart(Marks marks) {
    if (const auto flags = marks.find("VmFlags"); flags != marks.end())
        for (const std::string flag : {"gu ", "sd "})
            if (const auto at = flags->second.find(flag); at != std::string::npos)
                flags->second.erase(at, flag.size());
    return marks;
}

struct Mapping {
    std::uint64_t start = 0, end = 0;
    std::string access, device, file;
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;  // bytes of the file before it
    Marks marks{};             // those of smaps that are compared

    [[nodiscard]] std::uint64_t size() const { return end - start; }
    // The inode of a System V segment is its id, and the first one's is 0.
    [[nodiscard]] bool is_of_file() const { return inode != 0 || file.starts_with("/"); }
    [[nodiscard]] bool is_of_socket() const { return file.starts_with("socket:["); }
    // Whether the kernel might have made them one: it joins neighbours when it comes by, which depends on
    // what was done to them before.
    [[nodiscard]] bool goes_on_in(const Mapping& next) const {
        return end == next.start && access == next.access && device == next.device && inode == next.inode &&
               file == next.file && that_keep_apart(marks) == that_keep_apart(next.marks) &&
               (!is_of_file() || offset + size() == next.offset);
    }
};

// The file that is mapped, for reading. Only root may open /proc/PID/map_files: for others it is found by its
// name, if that still leads to it. Nothing if it can't be had.
Fd file_of(pid_t pid, const Mapping& mapping) {
    Fd file(open(fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, mapping.start, mapping.end).c_str(),
                 O_RDONLY | O_CLOEXEC));
    if (file || !mapping.file.starts_with('/')) return file;
    file = Fd(
        open(fmt::format("/proc/{}/root{}", pid, mapping.file).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (file && (fstat(file.get(), &status) != 0 || status.st_ino != mapping.inode)) file.reset();
    return file;
}

// What stands in memory; false if that can't be known. A page that isn't there is not touched: it would be
// made, which the program can see (mincore(2)). If it is a file's or of shared memory it is read there, where
// reading makes nothing; else it is zeros.
bool read_bytes(std::span<unsigned char> bytes, pid_t pid, const Fd& memory, const Mapping& mapping,
                std::span<const std::uint64_t> pagemap) {
    const auto there = [](std::uint64_t entry) { return (entry & (present | swapped)) != 0; };
    if (mapping.is_of_file()) {
        const Fd file = file_of(pid, mapping);
        if (!file && !std::ranges::all_of(pagemap, there)) return false;
        std::size_t done = 0;
        while (file && done < bytes.size()) {
            const ssize_t count = pread(file.get(), bytes.data() + done, bytes.size() - done,
                                        static_cast<off_t>(mapping.offset + done));
            if (count <= 0) break;
            done += static_cast<std::size_t>(count);
        }
        if (file && mapping.access[3] == 's') return true;
    }
    for (std::size_t first = 0; first < pagemap.size();) {
        std::size_t last = first;
        while (last < pagemap.size() && there(pagemap[last])) ++last;
        for (std::size_t at = first * page; at < last * page;) {
            const ssize_t count = pread(memory.get(), bytes.data() + at, last * page - at,
                                        static_cast<off_t>(mapping.start + at));
            at += count > 0 ? static_cast<std::size_t>(count) : page - at % page;
        }
        first = last + 1;
    }
    return true;
}

// The ring of a packet socket, TPACKET_V3: the numbers under which the kernel has filled the blocks, which go
// on by one and which no call sets (struct tpacket_hdr_v1::seq_num in <linux/if_packet.h>).
void clear_block_numbers(std::span<unsigned char> bytes) {
    constexpr std::array<std::uint32_t, 2> head{2, 48};  // version and offset_to_priv of tpacket_block_desc
    constexpr std::size_t number_at = 24, number_size = 8;
    for (std::size_t at = 0; at + page <= bytes.size(); at += page)
        if (std::memcmp(bytes.data() + at, head.data(), sizeof head) == 0)
            std::memset(bytes.data() + at + number_at, 0, number_size);
}

void see_content(Facts& facts, const std::string& name, const Mapping& mapping,
                 std::vector<unsigned char> bytes, const std::vector<Unseen>& unseen) {
    if (mapping.is_of_socket()) clear_block_numbers(bytes);
    for (const Unseen& part : unseen) {
        const std::uint64_t from = std::max(part.start, mapping.start),
                            to = std::min(part.start + part.size, mapping.end);
        if (from < to) std::memset(bytes.data() + (from - mapping.start), 0, to - from);
    }
    if (mapping.access[1] != 'w') {
        facts.put(name + "/content", fmt::format("{:016x}", hash_of(bytes)));
        return;
    }
    std::map<std::uint64_t, std::uint64_t> hashes;  // of the pages that aren't all zeros
    for (std::uint64_t at = 0; at < mapping.size(); at += page) {
        const auto here = std::span(bytes).subspan(at, page);
        if (std::ranges::any_of(here, [](unsigned char byte) { return byte != 0; }))
            hashes[at / page] = hash_of(here);
    }
    if (hashes.size() > single_pages) {
        facts.put(name + "/content", fmt::format("{:016x}", hash_of(bytes)));
        return;
    }
    for (const auto& [number, hash] : hashes)
        facts.put(fmt::format("{}/page/{:02}", name, number), fmt::format("{:016x}", hash));
}

// How many pages are there, are a file's or shared memory's own, and this process's alone.
void see_sharing(Facts& facts, const std::string& name, std::span<const std::uint64_t> pagemap) {
    const auto count = [&](std::uint64_t bits) {
        return std::ranges::count_if(pagemap, [&](std::uint64_t entry) { return (entry & bits) != 0; });
    };
    std::string guards;
    for (std::size_t number = 0; number < pagemap.size(); ++number)
        if ((pagemap[number] & guard) != 0) guards += fmt::format(" {}", number);
    if (!guards.empty()) facts.put(name + "/guard pages", guards);
    facts.put(name + "/pages/there", count(present | swapped));
    facts.put(name + "/pages/of a file", count(of_file));
    facts.put(name + "/pages/exclusive", count(exclusive));
}

std::vector<std::uint64_t> read_pagemap(const Fd& pagemap, const Mapping& mapping) {
    std::vector<std::uint64_t> entries(mapping.size() / page);
    const ssize_t count = pread(pagemap.get(), entries.data(), entries.size() * sizeof(std::uint64_t),
                                static_cast<off_t>(mapping.start / page * sizeof(std::uint64_t)));
    entries.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)) / sizeof(std::uint64_t));
    return entries;
}

// START-END ACCESS OFFSET DEVICE INODE   FILE
bool begins(const std::string& line, Mapping& mapping) {
    if (line.empty() || std::isxdigit(static_cast<unsigned char>(line[0])) == 0 ||
        line.find('-') == std::string::npos)
        return false;
    const char* end = line.data() + line.size();
    const auto start = std::from_chars(line.data(), end, mapping.start, 16);
    if (start.ec != std::errc() || *start.ptr != '-') return false;
    const auto behind = std::from_chars(start.ptr + 1, end, mapping.end, 16);
    if (behind.ec != std::errc() || *behind.ptr != ' ') return false;
    std::istringstream words(std::string(behind.ptr, end));
    words >> mapping.access >> std::hex >> mapping.offset >> mapping.device >> std::dec >> mapping.inode >>
        std::ws;
    std::getline(words, mapping.file);
    return true;
}

std::vector<Mapping> mappings_of(const std::string& folder) {
    std::vector<Mapping> found;
    std::istringstream lines(text_of(folder + "/smaps").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        Mapping begun;
        if (begins(line, begun)) {
            found.push_back(std::move(begun));
            continue;
        }
        const std::size_t colon = line.find(':');
        const std::string key = line.substr(0, colon);
        if (!found.empty() && (key == "VmFlags" || key == "KernelPageSize" || key == "ProtectionKey"))
            found.back().marks[key] = line.substr(line.find_first_not_of(' ', colon + 1));
    }
    return found;
}

// The name that rules speak of: the file's own, or what kind of memory it is.
std::string title_of(const Mapping& mapping) {
    const auto marks = mapping.marks.find("VmFlags");
    if (marks != mapping.marks.end() && (" " + marks->second + " ").find(" dp ") != std::string::npos)
        return "droppable";
    if (mapping.file.empty()) return "anonymous";
    const std::size_t slash = mapping.file.rfind('/');
    std::string name = mapping.file.substr(slash == std::string::npos ? 0 : slash + 1);
    if (name == "region" || name.starts_with("memfd:cairn-region")) return name;
    if (mapping.file.starts_with("anon_inode:[io_uring]")) return "io_uring";
    if (mapping.access[3] == 's') return "shared";
    return mapping.file.ends_with(" (deleted)") ? "removed" : name;
}

}  // namespace

void see_memory(Facts& facts, pid_t pid, const std::vector<Unseen>& unseen) {
    const std::string folder = fmt::format("/proc/{}", pid);
    const Fd memory(open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
    const Fd pagemap(open((folder + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
    const std::vector<Mapping> mappings = mappings_of(folder);
    for (std::size_t first = 0, next = 1; first < mappings.size(); first = next, ++next) {
        while (next < mappings.size() && mappings[next - 1].goes_on_in(mappings[next])) ++next;
        Mapping whole = mappings[first];
        whole.end = mappings[next - 1].end;
        const std::string title = title_of(whole);
        const std::string name = fmt::format("{}/map/{:x} {}", pid, whole.start, title);
        facts.put(name + "/end", fmt::format("{:x}", whole.end));
        facts.put(name + "/access", whole.access);
        facts.put(name + "/offset", fmt::format("{:x}", whole.offset));
        // A socket's name has its inode.
        facts.put(name + "/file", whole.is_of_socket()
                                      ? whole.file
                                      : fmt::format("{} {} {}", whole.device, whole.inode, whole.file));
        for (const auto& [mark, value] : whole.marks) facts.put(fmt::format("{}/{}", name, mark), value);
        if (whole.size() > largest || whole.file == "[vsyscall]" || whole.file.starts_with("[vvar")) continue;
        const std::vector<std::uint64_t> pages = read_pagemap(pagemap, whole);
        if (pages.size() != whole.size() / page) continue;
        std::vector<unsigned char> bytes(whole.size());
        bool known = true;
        for (std::size_t piece = first; piece < next; ++piece) {
            const std::uint64_t before = mappings[piece].start - whole.start, size = mappings[piece].size();
            known = read_bytes(std::span(bytes).subspan(before, size), pid, memory, mappings[piece],
                               std::span(pages).subspan(before / page, size / page)) &&
                    known;
        }
        if (known)
            see_content(facts, name, whole, std::move(bytes), unseen);
        else
            facts.put(name + content_not_seen, "");
        see_sharing(facts, name, pages);
    }
    // Memory policies (numa(7)): "START POLICY file=... anon=N ...", of which the counts are measurements.
    // Only others than the default.
    std::istringstream policies(text_of(folder + "/numa_maps").value_or(""));
    for (std::string line; std::getline(policies, line);) {
        std::istringstream words(line);
        std::string start, policy;
        words >> start >> policy;
        if (policy != "default") facts.put(fmt::format("{}/policy/{}", pid, start), policy);
    }
}

}  // namespace cairn::witness
