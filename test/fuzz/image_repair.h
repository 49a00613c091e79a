// Makes the checksums of a fuzzed image right where there is one to make right: without it no mutation gets
// past them.
#pragma once

#include <cstring>
#include <vector>

#include "common/image/format.h"
#include "common/image/hash.h"

namespace cairn::fuzz {

template <class T>
void seal(std::vector<std::uint8_t>& data, std::size_t at) {
    const std::uint64_t sum = hash64(std::span(data).subspan(at, offsetof(T, checksum)));
    std::memcpy(data.data() + at + offsetof(T, checksum), &sum, sizeof sum);
}

inline void repair_image(std::vector<std::uint8_t>& data) {
    if (data.size() < sizeof(ImageHeader) + sizeof(ImageFooter)) return;
    const std::size_t footer_at = data.size() - sizeof(ImageFooter);
    ImageHeader header;
    ImageFooter footer;
    std::memcpy(&header, data.data(), sizeof header);
    std::memcpy(&footer, data.data() + footer_at, sizeof footer);
    footer.id = header.id;
    footer.file_size = data.size();
    if (footer.table_offset <= footer_at) {
        const auto table = std::span(data).subspan(footer.table_offset, footer_at - footer.table_offset);
        for (std::size_t i = 0; i + sizeof(SectionEntry) <= table.size(); i += sizeof(SectionEntry)) {
            SectionEntry entry;
            std::memcpy(&entry, table.data() + i, sizeof entry);
            if (entry.offset > data.size() || entry.length > data.size() - entry.offset) continue;
            entry.checksum = hash64(std::span(data).subspan(entry.offset, entry.length));
            std::memcpy(table.data() + i, &entry, sizeof entry);
        }
        footer.table_checksum = hash64(table);
    }
    std::memcpy(data.data() + footer_at, &footer, sizeof footer);
    seal<ImageHeader>(data, 0);
    seal<ImageFooter>(data, footer_at);
}

}  // namespace cairn::fuzz
