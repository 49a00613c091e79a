// A folder that goes with the test, and a small image in it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/image/hash.h"
#include "common/image/page_hashes.h"
#include "common/image/reader.h"
#include "common/image/writer.h"
#include "common/schema/json.h"
#include "resources/schema/image.h"
#include "resources/schema/json.h"
#include "test/unit/folder.h"

namespace cairn::test {

inline schema::Bytes load(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void store(const std::string& path, std::span<const std::uint8_t> data) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

// The header says another version, its checksum right.
inline void set_version(const std::string& path, std::uint32_t version) {
    auto data = load(path);
    ImageHeader header;
    std::memcpy(&header, data.data(), sizeof header);
    header.version = version;
    std::memcpy(data.data(), &header, sizeof header);
    header.checksum = hash64(std::span(data).first(offsetof(ImageHeader, checksum)));
    std::memcpy(data.data(), &header, sizeof header);
    store(path, data);
}

// One area of `runs` runs of two pages each, a hole of a page between them; the image named `name`.
inline schema::Process write_example(const Folder& folder, const std::string& name, std::size_t runs = 3) {
    schema::Process process;
    process.pid = ProgramId(42);
    process.name = "example";
    schema::Area area;
    area.start = ProgramAddress(0x10000);
    area.end = area.start + runs * 3 * image_page;
    auto writer = ImageWriter::create(folder.fd(), name, ImageKind::process);
    if (!writer) throw std::runtime_error(writer.error().what);
    std::mt19937_64 random(runs);
    for (std::size_t i = 0; i < runs; ++i) {
        schema::Bytes data(2 * image_page);
        for (auto& byte : data) byte = static_cast<std::uint8_t>(random());
        const std::uint64_t offset = writer->reserve(data.size());
        if (!writer->write_at(offset, data)) throw std::runtime_error("write_at");
        area.pages.push_back({area.start + i * 3 * image_page, data.size(), offset, run_hash(data)});
    }
    process.areas.push_back(area);
    writer->add_section(SectionType::meta, schema::encode(process));
    if (!writer->finish(Durable::no)) throw std::runtime_error("finish");
    return process;
}

inline std::string write_objects_example(const Folder& folder, const std::string& name) {
    schema::Objects objects;
    objects.objects.resize(2);
    auto writer = ImageWriter::create(folder.fd(), name, ImageKind::objects);
    if (!writer) throw std::runtime_error(writer.error().what);
    writer->add_section(SectionType::objects, schema::encode(objects));
    if (!writer->finish(Durable::no)) throw std::runtime_error("finish");
    return folder.file(name);
}

template <class T>
void expect_damaged(const Result<T>& result, const std::string& part) {
    ASSERT_FALSE(result) << "expected: " << part;
    EXPECT_EQ(result.error().code, ExitCode::damaged) << result.error().what;
    EXPECT_NE(result.error().what.find(part), std::string::npos)
        << "got: " << result.error().what << "\nexpected: " << part;
}

}  // namespace cairn::test
