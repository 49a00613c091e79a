// What an image file looks like: docs/image-format.md. All numbers are little-endian.
//
//   header, padded to a page | page data, holes allowed | sections | section table | footer
//
// The footer is written last: a file that was cut, or whose writer died, has none.
// The header and its first fields stay where they are in every version, so that a version can be refused by
// name.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

namespace cairn {

// Of an image of kind objects; and of one of a process, where the hash of a page run is that of its bytes.
// Since version 6 it is that of the checksums of its pages (run_hash() in common/image/page_hashes.h).
inline constexpr std::uint32_t image_version_of_bytes = 4, image_version = 6;
// The same of an image whose page data is compressed: readers that know nothing of that refuse it by its
// version.
inline constexpr std::uint32_t image_version_of_bytes_compressed = 5, image_version_compressed = 7;
inline constexpr std::uint64_t image_page = 4096;
inline constexpr std::uint64_t image_max_run = std::uint64_t{1} << 20;      // bytes of one page run
inline constexpr std::uint64_t image_max_section = std::uint64_t{1} << 30;  // bytes of one section
inline constexpr std::uint32_t image_max_sections = 256;

// Not text: an end-of-line conversion or a cut 8th bit shows in it (as in PNG's).
inline constexpr std::array<std::uint8_t, 8> image_magic{0x89, 'C', 'R', 'N', '\r', '\n', 0x1a, '\n'};
inline constexpr std::array<std::uint8_t, 8> footer_magic{'C', 'R', 'N', 'f', 'o', 'o', 't', '1'};
inline constexpr std::uint32_t byte_order_mark = 0x01020304;
inline constexpr std::uint32_t architecture_x86_64 = 62;  // EM_X86_64 of elf.h

enum class ImageKind : std::uint32_t { process = 1, objects = 2 };

constexpr std::uint32_t four_letters(const char (&letters)[5]) {
    std::uint32_t value = 0;
    for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint8_t>(letters[i]);
    return value;
}

// Numbers, not a closed list: a reader ignores sections that it doesn't know.
enum class SectionType : std::uint32_t {
    meta = four_letters("META"),         // kind process: MessagePack of schema::Process
    objects = four_letters("OBJS"),      // kind objects: MessagePack of schema::Objects
    page_hashes = four_letters("PGHS"),  // kind process: PageHashes
    chunks = four_letters("CHNK"),       // versions 5 and 7: ChunkTable
};

struct ImageHeader {
    std::array<std::uint8_t, 8> magic = image_magic;
    std::uint32_t version = image_version;
    std::uint32_t byte_order = byte_order_mark;
    std::uint32_t architecture = architecture_x86_64;
    ImageKind kind = ImageKind::process;
    std::uint64_t page_size = image_page;
    std::uint64_t id = 0;  // random; the footer has it again, so that the two are known to belong together
    std::uint64_t reserved[2] = {};
    std::uint64_t checksum = 0;  // of the bytes before it
};

struct SectionEntry {
    SectionType type{};
    std::uint32_t flags = 0;  // none yet: 0
    std::uint64_t offset = 0, length = 0;
    std::uint64_t checksum = 0;
};

struct ImageFooter {
    std::array<std::uint8_t, 8> magic = footer_magic;
    std::uint64_t id = 0;
    std::uint64_t data_end = 0;  // page data lies in [image_page, data_end)
    std::uint64_t table_offset = 0;
    std::uint32_t section_count = 0;
    std::uint32_t entry_size = sizeof(SectionEntry);
    std::uint64_t file_size = 0;
    std::uint64_t table_checksum = 0;
    std::uint64_t checksum = 0;  // of the bytes before it
};

static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(ImageHeader) == 64 && std::is_trivially_copyable_v<ImageHeader>);
static_assert(sizeof(SectionEntry) == 32 && std::is_trivially_copyable_v<SectionEntry>);
static_assert(sizeof(ImageFooter) == 64 && std::is_trivially_copyable_v<ImageFooter>);

// Whether the page data of an image of this version is compressed.
[[nodiscard]] constexpr bool is_compressed(std::uint32_t version) {
    return version == image_version_compressed || version == image_version_of_bytes_compressed;
}

// "META"; what can't be printed becomes '?'.
[[nodiscard]] std::string section_name(SectionType type);
[[nodiscard]] const char* kind_name(ImageKind kind);

}  // namespace cairn
