// Damaged, cut, foreign and hostile images are refused by name.
#include <cstring>
#include <random>

#include "test/unit/image_file.h"

namespace cairn {
namespace {

using test::expect_damaged;
using test::Folder;

class ImageDamage : public testing::Test {
  protected:
    void SetUp() override {
        process_ = test::write_example(folder_, "p");
        whole_ = test::load(path_);
        std::memcpy(&footer_, whole_.data() + whole_.size() - sizeof footer_, sizeof footer_);
    }

    // What a reader of the file with these bytes says.
    [[nodiscard]] Result<> read(std::span<const std::uint8_t> data) const {
        test::store(path_, data);
        const auto image = TRY(open_process_image(path_));
        return verify_pages(image.reader, image.process.areas.at(0).pages);
    }

    [[nodiscard]] schema::Bytes flipped(std::size_t byte, unsigned bit = 3) const {
        schema::Bytes data = whole_;
        data.at(byte) = static_cast<std::uint8_t>(data.at(byte) ^ 1U << bit);
        return data;
    }

    // With a header that says something else, its checksum right.
    template <class Change>
    schema::Bytes with_header(Change change) const {
        schema::Bytes data = whole_;
        ImageHeader header;
        std::memcpy(&header, data.data(), sizeof header);
        change(header);
        std::memcpy(data.data(), &header, sizeof header);
        header.checksum = hash64(std::span(data).first(offsetof(ImageHeader, checksum)));
        std::memcpy(data.data(), &header, sizeof header);
        return data;
    }

    // With another footer and section table, their checksums right.
    template <class Change>
    schema::Bytes with_table(Change change) const {
        schema::Bytes data = whole_;
        ImageFooter footer = footer_;
        std::vector<SectionEntry> table(footer.section_count);
        const std::size_t bytes = table.size() * sizeof(SectionEntry);
        std::memcpy(table.data(), data.data() + footer.table_offset, bytes);
        change(footer, table);
        std::memcpy(data.data() + footer_.table_offset, table.data(), bytes);
        footer.table_checksum = hash64(std::span(data).subspan(footer_.table_offset, bytes));
        const std::size_t at = data.size() - sizeof footer;
        std::memcpy(data.data() + at, &footer, sizeof footer);
        footer.checksum = hash64(std::span(data).subspan(at, offsetof(ImageFooter, checksum)));
        std::memcpy(data.data() + at, &footer, sizeof footer);
        return data;
    }

    // The same pages with other metadata.
    [[nodiscard]] Result<> read_process(const schema::Process& process,
                                        std::uint64_t room = 6 * image_page) const {
        std::filesystem::remove(path_);
        auto writer = TRY(ImageWriter::create(folder_.fd(), "p", ImageKind::process));
        (void)writer.reserve(room);
        writer.add_section(SectionType::meta, schema::encode(process));
        CHECK_OK(writer.finish(Durable::no));
        [[maybe_unused]] const auto image = TRY(open_process_image(path_));
        return {};
    }

    Folder folder_;
    std::string path_ = folder_.file("p");
    schema::Process process_;
    schema::Bytes whole_;
    ImageFooter footer_;
};

TEST_F(ImageDamage, WholeIsGood) {
    const auto good = read(whole_);
    EXPECT_TRUE(good) << good.error().what;
}

TEST_F(ImageDamage, CutAnywhere) {
    std::vector<std::size_t> lengths{0,
                                     1,
                                     7,
                                     8,
                                     63,
                                     64,
                                     65,
                                     image_page - 1,
                                     image_page,
                                     image_page + 1,
                                     image_page + 63,
                                     image_page + 64,
                                     image_page + 65};
    for (const std::size_t border : {std::size_t{footer_.data_end}, std::size_t{footer_.table_offset},
                                     whole_.size() - sizeof(ImageFooter), whole_.size()})
        for (std::size_t i = border - 2; i < border + 2; ++i)
            if (i < whole_.size()) lengths.push_back(i);
    std::mt19937_64 random(4);
    for (int i = 0; i < 300; ++i) lengths.push_back(random() % whole_.size());
    for (const std::size_t length : lengths) {
        const auto result = read(std::span(whole_).first(length));
        ASSERT_FALSE(result) << length;
        EXPECT_EQ(result.error().code, ExitCode::damaged) << result.error().what;
        EXPECT_NE(result.error().what.find(path_), std::string::npos);
    }
    expect_damaged(read({}), "is empty");
    expect_damaged(read(std::span(whole_).first(40)), "ends within its header");
    expect_damaged(read(std::span(whole_).first(whole_.size() - 1)), "is cut");
    expect_damaged(read(std::span(whole_).first(footer_.data_end)), "is cut");
}

TEST_F(ImageDamage, LongerIsCutElsewhere) {
    schema::Bytes longer = whole_;
    longer.resize(longer.size() + 100);
    expect_damaged(read(longer), "is cut");
    longer = whole_;
    longer.insert(longer.end(), whole_.end() - sizeof(ImageFooter), whole_.end());
    expect_damaged(read(longer), "size of the file");
}

TEST_F(ImageDamage, FlippedBitInEachPlace) {
    for (std::size_t byte = 0; byte < 8; ++byte) expect_damaged(read(flipped(byte)), "is not a cairn image");
    for (std::size_t byte = 8; byte < sizeof(ImageHeader); ++byte)
        expect_damaged(read(flipped(byte)), "the header is damaged");
    const std::size_t footer = whole_.size() - sizeof(ImageFooter);
    for (std::size_t byte = footer; byte < footer + 8; ++byte) expect_damaged(read(flipped(byte)), "is cut");
    for (std::size_t byte = footer + 8; byte < whole_.size(); ++byte)
        expect_damaged(read(flipped(byte)), "the footer is damaged");
    for (std::size_t byte = footer_.table_offset; byte < footer; ++byte)
        expect_damaged(read(flipped(byte)), "the section table is damaged");
    SectionEntry meta;
    std::memcpy(&meta, whole_.data() + footer_.table_offset, sizeof meta);
    for (std::size_t byte = meta.offset; byte < meta.offset + meta.length; byte += 37)
        expect_damaged(read(flipped(byte)), "section META is damaged");
    for (std::size_t byte = image_page; byte < footer_.data_end; byte += 1021)
        expect_damaged(read(flipped(byte, byte % 8)), "pages for address");
}

TEST_F(ImageDamage, AnySingleBitOfWhatIsUsed) {
    std::mt19937_64 random(5);
    for (int i = 0; i < 1500; ++i) {
        std::size_t byte;
        do byte = random() % whole_.size();
        while (byte >= sizeof(ImageHeader) && byte < image_page);  // padding behind the header
        const auto result = read(flipped(byte, random() % 8));
        // Bytes between two sections are padding too.
        if (byte < footer_.table_offset && byte + 8 > footer_.table_offset) continue;
        ASSERT_FALSE(result) << byte;
        ASSERT_EQ(result.error().code, ExitCode::damaged);
    }
}

TEST_F(ImageDamage, OtherVersionsAndMachinesByName) {
    expect_damaged(read(with_header([](ImageHeader& h) { h.version = 1; })),
                   "format version 1, this cairn reads versions 4 to 7");
    expect_damaged(read(with_header([](ImageHeader& h) { h.architecture = 183; })), "architecture 183");
    expect_damaged(read(with_header([](ImageHeader& h) { h.byte_order = std::byteswap(byte_order_mark); })),
                   "big-endian");
    expect_damaged(read(with_header([](ImageHeader& h) { h.page_size = 65536; })), "pages of 65536 bytes");
    expect_damaged(read(with_header([](ImageHeader& h) { h.kind = ImageKind{7}; })), "of kind 7");
    expect_damaged(read(with_header([](ImageHeader& h) { ++h.id; })), "belongs to another image");
}

TEST_F(ImageDamage, WrongKind) {
    const std::string objects = test::write_objects_example(folder_, "o");
    expect_damaged(open_process_image(objects), "of kind 'objects', 'process' was expected");
    expect_damaged(open_objects_image(path_), "of kind 'process', 'objects' was expected");
    expect_damaged(ImageReader::open(folder_.path()), "no regular file");
    const auto missing = ImageReader::open(folder_.file("nobody"));
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().number, ENOENT);
}

TEST_F(ImageDamage, HostileTables) {
    using Table = std::vector<SectionEntry>;
    expect_damaged(read(with_table([](ImageFooter&, Table& t) { t[0].length = ~0ULL; })),
                   "outside of the file");
    expect_damaged(read(with_table([](ImageFooter&, Table& t) { t[0].offset = ~0ULL - 10; })),
                   "outside of the file");
    expect_damaged(read(with_table([](ImageFooter&, Table& t) { t[0].offset = 0; })), "outside of the file");
    expect_damaged(read(with_table([](ImageFooter& f, Table&) { f.section_count = ~0U; })), "section table");
    expect_damaged(read(with_table([](ImageFooter& f, Table&) { f.table_offset = ~0ULL; })), "section table");
    expect_damaged(read(with_table([](ImageFooter& f, Table&) { f.data_end = ~0ULL << 12; })),
                   "end of the page data");
    expect_damaged(read(with_table([](ImageFooter& f, Table&) { f.data_end += 1; })), "end of the page data");
    expect_damaged(read(with_table([](ImageFooter& f, Table&) { f.entry_size = 16; })), "section table");
}

TEST_F(ImageDamage, HostileAreas) {
    const auto with_area = [&](auto change) {
        schema::Process process;
        schema::Area area;
        area.start = ProgramAddress(0x10000);
        area.end = ProgramAddress(0x20000);
        area.pages.push_back({ProgramAddress(0x11000), image_page, image_page, 0});
        change(area);
        process.areas.push_back(area);
        return read_process(process);
    };
    EXPECT_TRUE(with_area([](schema::Area&) {}));
    expect_damaged(with_area([](schema::Area& a) { a.pages[0].at = ProgramAddress(0x9000); }),
                   "don't lie in order");
    expect_damaged(with_area([](schema::Area& a) { a.pages[0].at = ProgramAddress(0x20000); }),
                   "don't lie in order");
    expect_damaged(with_area([](schema::Area& a) { a.pages[0].at = ProgramAddress(~0xfffULL); }),
                   "don't lie in order");
    expect_damaged(with_area([](schema::Area& a) { a.pages.push_back(a.pages[0]); }), "don't lie in order");
    expect_damaged(with_area([](schema::Area& a) { a.pages[0].offset = 0; }), "outside of the page data");
    expect_damaged(with_area([](schema::Area& a) { a.pages[0].offset = ~0xfffULL; }),
                   "outside of the page data");
    expect_damaged(with_area([](schema::Area& a) { a.pages[0].offset += 8; }), "outside of the page data");
    expect_damaged(with_area([](schema::Area& a) { a.pages[0].length = 0; }), "outside of the page data");
    expect_damaged(with_area([](schema::Area& a) { a.pages[0].length = 2 * image_max_run; }),
                   "outside of the page data");
    expect_damaged(with_area([](schema::Area& a) { a.end = a.start; }), "out of order");
    expect_damaged(with_area([](schema::Area& a) { a.start += 1; }), "out of order");
    expect_damaged(with_area([](schema::Area& a) {
                       a.guards = {{ProgramAddress(0x1f000), 0x2000}};
                   }),
                   "guard pages");
    expect_damaged(with_area([](schema::Area& a) {
                       a.guards = {{ProgramAddress(0x10000), ~0xfffULL}};
                   }),
                   "guard pages");
}

TEST_F(ImageDamage, SparseFileClaimsTheWorld) {
    // A footer at 4 TiB with a section of nearly as much: refused without reading or allocating it.
    schema::Bytes data = whole_;
    ImageFooter footer = footer_;
    constexpr std::uint64_t huge = std::uint64_t{4} << 40;
    SectionEntry entry{SectionType::meta, 0, footer.data_end, huge / 2, 0};
    footer.table_offset = huge;
    footer.section_count = 1;
    footer.file_size = huge + sizeof entry + sizeof footer;
    const std::span entry_bytes(reinterpret_cast<const std::uint8_t*>(&entry), sizeof entry);
    footer.table_checksum = hash64(entry_bytes);
    const std::span footer_bytes(reinterpret_cast<const std::uint8_t*>(&footer), sizeof footer);
    footer.checksum = hash64(footer_bytes.first(offsetof(ImageFooter, checksum)));
    test::store(path_, data);
    const Fd fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (::pwrite(fd.get(), entry_bytes.data(), entry_bytes.size(), static_cast<off_t>(huge)) < 0)
        GTEST_SKIP() << "this file system has no files of 4 TiB";
    ASSERT_EQ(
        ::pwrite(fd.get(), footer_bytes.data(), footer_bytes.size(), static_cast<off_t>(huge + sizeof entry)),
        static_cast<ssize_t>(sizeof footer));
    expect_damaged(ImageReader::open(path_), "outside of the file");
}

}  // namespace
}  // namespace cairn
