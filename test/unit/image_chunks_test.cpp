// Compressed images: what was written comes back whole, in pieces and by single pages, and no damage of
// theirs goes unnoticed or does harm.
#include <cstring>
#include <random>

#include "common/image/chunks.h"
#include "common/image/page_reader.h"
#include "test/unit/image_file.h"

namespace cairn {
namespace {

using test::expect_damaged;
using test::Folder;

// Words of which so many of 100 are the same.
schema::Bytes some_bytes(std::size_t size, unsigned alike, unsigned seed) {
    std::mt19937_64 random(seed);
    schema::Bytes bytes(size);
    for (std::size_t at = 0; at < size; at += 8) {
        const std::uint64_t word = random() % 100 < alike ? 0x1234 : random();
        std::memcpy(bytes.data() + at, &word, sizeof word);
    }
    return bytes;
}

struct Written {
    std::vector<schema::PageRun> runs;
    std::vector<schema::Bytes> contents;
    std::uint64_t size = 0;
};

Written write_image(const Folder& folder, Compression how, unsigned alike, bool early = false) {
    Written written;
    auto writer = ImageWriter::create(folder.fd(), "p", ImageKind::process, how);
    if (!writer) throw std::runtime_error(writer.error().what);
    if (!early) writer->compress_from_now();
    schema::Process process;
    schema::Area area;
    area.start = ProgramAddress(0x10000000);
    auto at = area.start;
    const std::size_t lengths[] = {1, 3, 64, 65, 256, 100, 1, 7};
    unsigned seed = 0;
    for (const auto pages : lengths) {
        auto data = some_bytes(pages * image_page, alike, ++seed);
        const auto offset = writer->reserve(data.size());
        // In two parts, as a list of runs is written.
        const std::size_t half = data.size() / 2;
        const iovec parts[] = {{data.data(), half}, {data.data() + half, data.size() - half}};
        if (!writer->write_at(offset, parts)) throw std::runtime_error("write_at");
        written.runs.push_back({at, data.size(), offset, run_hash(data)});
        at = at + data.size() + image_page;
        written.contents.push_back(std::move(data));
        if (early) writer->compress_from_now();
    }
    area.end = at;
    area.pages = written.runs;
    process.areas.push_back(area);
    writer->add_section(SectionType::meta, schema::encode(process));
    const auto size = writer->finish(Durable::no);
    if (!size) throw std::runtime_error(size.error().what);
    written.size = *size;
    return written;
}

class ImageChunks : public testing::TestWithParam<const char*> {
  protected:
    [[nodiscard]] static Compression how() { return compression_named(GetParam()).value_or(Compression()); }
};

TEST_P(ImageChunks, ComeBack) {
    for (const unsigned alike : {0U, 50U, 100U}) {
        const Folder folder;
        const auto written = write_image(folder, how(), alike, alike == 50);
        const auto image = open_process_image(folder.file("p"));
        ASSERT_TRUE(image) << image.error().what;
        EXPECT_EQ(image->reader.compressed(), how().codec != Codec::none);
        EXPECT_EQ(says_compressed(folder.file("p")), image->reader.compressed());
        const auto good = verify_pages(image->reader, image->process.areas.at(0).pages);
        EXPECT_TRUE(good) << good.error().what;
        // Single pages, in any order.
        std::mt19937_64 random(alike);
        PageReader pages(image->reader);
        for (int i = 0; i < 300; ++i) {
            const auto which = random() % written.runs.size();
            const auto& run = written.runs[which];
            const auto first = random() % (run.length / image_page);
            const auto count = 1 + random() % (run.length / image_page - first);
            schema::Bytes bytes(count * image_page);
            ASSERT_TRUE(pages.read(run.offset + first * image_page, bytes));
            EXPECT_EQ(
                std::memcmp(bytes.data(), written.contents[which].data() + first * image_page, bytes.size()),
                0);
        }
    }
}

TEST_P(ImageChunks, TakeLessRoomWhereMuchIsAlike) {
    const Folder folder, plain;
    const auto packed = write_image(folder, how(), 90), whole = write_image(plain, {}, 90);
    if (how().codec == Codec::none)
        EXPECT_EQ(packed.size, whole.size);
    else
        EXPECT_LT(packed.size, whole.size / 2);
}

TEST_P(ImageChunks, AnyDamageIsNoticed) {
    const Folder folder;
    const auto written = write_image(folder, how(), 70);
    const auto path = folder.file("p");
    const auto whole = test::load(path);
    std::mt19937_64 random(7);
    for (int i = 0; i < 150; ++i) {
        auto bytes = whole;
        const auto at = image_page + random() % (bytes.size() - image_page);
        bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ 1U << random() % 8);
        test::store(path, bytes);
        const auto image = open_process_image(path);
        if (!image) {
            EXPECT_EQ(image.error().code, ExitCode::damaged);
            continue;
        }
        // Either somebody says so, or nobody's byte was hit: one between pages and sections.
        PageReader pages(image->reader);
        schema::Bytes buffer(image_max_run);
        for (std::size_t k = 0; k < written.runs.size(); ++k) {
            const auto got = pages.read_run(written.runs[k], buffer);
            const auto& wanted = written.contents[k];
            EXPECT_TRUE(got ? std::ranges::equal(wanted, std::span(buffer).first(wanted.size()))
                            : got.error().code == ExitCode::damaged);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, ImageChunks, testing::Values("none", "lz4", "zstd", "zstd:19"));

TEST(ImageChunkTable, WrongOnesAreRefused) {
    const auto parse = [](std::vector<ImageChunk> chunks) {
        return ChunkTable::parse(ChunkTable::to_section(std::move(chunks)), 1 << 20);
    };
    const ImageChunk good{.offset = 4096, .at = 4096, .length = 8192, .stored = 100, .codec = Codec::lz4};
    EXPECT_TRUE(parse({good}));
    EXPECT_TRUE(parse({}));
    const auto with = [&](auto change) {
        auto other = good;
        change(other);
        return parse({other});
    };
    EXPECT_FALSE(with([](auto& chunk) { chunk.offset = 0; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.offset = 5000; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.length = 0; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.length = image_max_chunk + 4096; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.stored = 0; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.stored = 8193; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.codec = Codec::none; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.codec = static_cast<Codec>(3); }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.at = 0; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.at = (1 << 20) - 50; }));
    EXPECT_FALSE(with([](auto& chunk) { chunk.at = ~0ULL; }));
    auto behind = good;
    behind.offset = 8192;
    EXPECT_FALSE(parse({good, behind}));
    const schema::Bytes half(16);
    EXPECT_FALSE(ChunkTable::parse(half, 1 << 20));
}

TEST(ImageChunkTable, FindsWhoHasAPage) {
    const ImageChunk first{.offset = 4096, .at = 4096, .length = 8192, .stored = 100, .codec = Codec::lz4};
    const ImageChunk second{.offset = 20480, .at = 5000, .length = 4096, .stored = 100, .codec = Codec::zstd};
    const auto table = ChunkTable::parse(ChunkTable::to_section({second, first}), 1 << 20);
    ASSERT_TRUE(table);
    EXPECT_EQ(table->find(0), nullptr);
    ASSERT_NE(table->find(8192), nullptr);
    EXPECT_EQ(table->find(8192)->at, 4096U);
    EXPECT_EQ(table->find(12288), nullptr);
    ASSERT_NE(table->find(20480), nullptr);
    EXPECT_EQ(table->find(24576), nullptr);
    EXPECT_EQ(table->end(), 24576U);
}

// What compresses to more than it promises, or is cut, is told from what it should be.
TEST(ImageChunkTable, WrongBytesAreNoPages) {
    const auto plain = some_bytes(std::size_t{64} << 10, 95, 1);
    for (const auto* name : {"lz4", "zstd"}) {
        const auto how = *compression_named(name);
        const auto [codec, bytes] = compress(plain, how);
        ASSERT_EQ(codec, how.codec);
        const schema::Bytes stored(bytes.begin(), bytes.end());
        schema::Bytes to(plain.size());
        EXPECT_TRUE(decompress(codec, stored, to));
        EXPECT_EQ(to, plain);
        EXPECT_FALSE(decompress(codec, std::span(stored).first(stored.size() - 1), to));
        schema::Bytes shorter(plain.size() - image_page), longer(plain.size() + image_page);
        EXPECT_FALSE(decompress(codec, stored, shorter));
        EXPECT_FALSE(decompress(codec, stored, longer));
        EXPECT_FALSE(decompress(codec, some_bytes(1000, 0, 2), to));
    }
}

TEST(CompressionNames, AreReadAndOthersRefused) {
    EXPECT_EQ(compression_named("none"), Compression());
    EXPECT_EQ(compression_named("lz4")->codec, Codec::lz4);
    EXPECT_EQ(compression_named("zstd")->level, zstd_usual_level);
    EXPECT_EQ(compression_named("zstd:19")->level, 19);
    for (const auto* wrong :
         {"", "gzip", "zstd:", "zstd:0", "zstd:20", "zstd:-1", "zstd:3x", "zstd:100", "lz4:1", "ZSTD"})
        EXPECT_FALSE(compression_named(wrong)) << wrong;
}

}  // namespace
}  // namespace cairn
