// The hash of a page run: of the checksums of its pages, or, as older images have it, of its bytes.
#include <gtest/gtest.h>

#include <random>

#include "common/image/hash.h"
#include "test/unit/image_file.h"

namespace cairn {
namespace {

using test::Folder;

schema::Bytes random_pages(std::size_t count) {
    std::mt19937_64 random(count);
    schema::Bytes bytes(count * image_page);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    return bytes;
}

TEST(RunHash, IsOfTheChecksumsOfThePages) {
    const auto bytes = random_pages(3);
    std::vector<std::uint64_t> hashes;
    for (std::size_t i = 0; i < 3; ++i)
        hashes.push_back(page_hash(std::span(bytes).subspan(i * image_page, image_page)));
    EXPECT_EQ(run_hash(std::span<const std::uint8_t>(bytes)), run_hash(hashes));
    EXPECT_NE(run_hash(hashes), hash64(bytes));
}

TEST(RunHash, OlderImagesHaveThatOfTheBytes) {
    auto bytes = random_pages(2);
    const auto now = run_hash(std::span<const std::uint8_t>(bytes)), before = hash64(bytes);
    EXPECT_TRUE(is_run_hash(now, bytes));
    EXPECT_TRUE(is_run_hash(before, bytes));
    bytes[image_page + 5] ^= 1;
    EXPECT_FALSE(is_run_hash(now, bytes));
    EXPECT_FALSE(is_run_hash(before, bytes));
}

// An image of either version is read, and of a next one refused by its number.
TEST(RunHash, ImagesOfBothVersionsAreRead) {
    const Folder folder;
    for (const bool older : {false, true}) {
        const std::string name = older ? "older" : "newer";
        auto writer = ImageWriter::create(folder.fd(), name, ImageKind::process);
        ASSERT_TRUE(writer);
        const auto bytes = random_pages(2);
        const auto offset = writer->reserve(bytes.size());
        ASSERT_TRUE(writer->write_at(offset, bytes));
        schema::Process process;
        auto& area = process.areas.emplace_back();
        area.start = ProgramAddress(0x10000);
        area.end = area.start + bytes.size();
        const auto hash = older ? hash64(bytes) : run_hash(std::span<const std::uint8_t>(bytes));
        area.pages.push_back({area.start, bytes.size(), offset, hash});
        writer->add_section(SectionType::meta, schema::encode(process));
        ASSERT_TRUE(writer->finish(Durable::no));
        for (const std::uint32_t version :
             older ? std::vector<std::uint32_t>{4, 6} : std::vector<std::uint32_t>{6}) {
            test::set_version(folder.file(name), version);
            const auto image = open_process_image(folder.file(name));
            ASSERT_TRUE(image) << image.error().what;
            EXPECT_TRUE(verify_pages(image->reader, image->process.areas[0].pages)) << version;
        }
        test::set_version(folder.file(name), 8);
        test::expect_damaged(ImageReader::open(folder.file(name)),
                             "has format version 8, this cairn reads versions 4 to 7");
    }
}

}  // namespace
}  // namespace cairn
