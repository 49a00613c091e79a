// Writing images and reading them back.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "test/unit/image_file.h"
#include "test/unit/image_random.h"

namespace cairn {
namespace {

using test::Folder;

TEST(ImageWrite, ComesBack) {
    const Folder folder;
    const schema::Process process = test::write_example(folder, "p");
    const auto image = open_process_image(folder.file("p"));
    ASSERT_TRUE(image) << image.error().what;
    EXPECT_TRUE(test::same(process, image->process));
    EXPECT_EQ(image->reader.kind(), ImageKind::process);
    EXPECT_EQ(image->reader.file_size(), std::filesystem::file_size(folder.file("p")));
    const auto good = verify_pages(image->reader, image->process.areas[0].pages);
    EXPECT_TRUE(good) << good.error().what;
}

TEST(ImageWrite, FileIsPrivateAndNeverOverwritten) {
    const Folder folder;
    const mode_t before = ::umask(0);
    const auto writer = ImageWriter::create(folder.fd(), "p", ImageKind::process);
    ::umask(before);
    ASSERT_TRUE(writer);
    struct stat status {};
    ASSERT_EQ(::stat(folder.file("p").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0600U);
    const auto again = ImageWriter::create(folder.fd(), "p", ImageKind::process);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().number, EEXIST);
}

TEST(ImageWrite, PlannedIsMadeWhenItIsNeeded) {
    const Folder folder;
    auto writer = ImageWriter::plan(folder.fd(), "p", ImageKind::process);
    ASSERT_TRUE(writer);
    EXPECT_NE(::access(folder.file("p").c_str(), F_OK), 0);
    ASSERT_TRUE(writer->unpark());
    writer->park();
    ASSERT_TRUE(writer->unpark());
    writer->add_section(SectionType::meta, {1, 2, 3});
    ASSERT_TRUE(writer->finish(Durable::no));
    EXPECT_TRUE(ImageReader::open(folder.file("p")));

    auto late = ImageWriter::plan(folder.fd(), "p", ImageKind::process);
    ASSERT_TRUE(late);
    const auto made = late->unpark();
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().number, EEXIST);
}

TEST(ImageWrite, UnfinishedIsNoImage) {
    const Folder folder;
    {
        auto writer = ImageWriter::create(folder.fd(), "p", ImageKind::process);
        ASSERT_TRUE(writer);
        const schema::Bytes page(image_page);
        ASSERT_TRUE(writer->write_at(writer->reserve(page.size()), page));
        writer->add_section(SectionType::meta, {1, 2, 3});
    }
    test::expect_damaged(ImageReader::open(folder.file("p")), "never finished");
}

TEST(ImageWrite, ManyThreadsReserveAndWrite) {
    const Folder folder;
    auto writer = ImageWriter::create(folder.fd(), "p", ImageKind::process);
    ASSERT_TRUE(writer);
    constexpr std::size_t per_thread = 200;
    std::vector<std::vector<schema::PageRun>> runs(4);
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < runs.size(); ++t)
            threads.emplace_back([&, t] {
                for (std::size_t i = 0; i < per_thread; ++i) {
                    const std::size_t length = (1 + (i + t) % 5) * image_page;
                    const schema::Bytes data(length, static_cast<std::uint8_t>(t * per_thread + i));
                    const std::uint64_t offset = writer->reserve(length);
                    if (writer->write_at(offset, data))
                        runs[t].push_back({{}, length, offset, run_hash(data)});
                }
            });
    }
    writer->add_section(SectionType::meta, schema::encode(schema::Process{}));
    ASSERT_TRUE(writer->finish(Durable::yes));
    const auto reader = ImageReader::open(folder.file("p"));
    ASSERT_TRUE(reader) << reader.error().what;
    for (const auto& list : runs) {
        EXPECT_EQ(list.size(), per_thread);
        const auto good = verify_pages(*reader, list);
        EXPECT_TRUE(good) << good.error().what;
    }
}

TEST(ImageWrite, ManyPartsAtOnce) {
    const Folder folder;
    auto writer = ImageWriter::create(folder.fd(), "p", ImageKind::process);
    ASSERT_TRUE(writer);
    schema::Bytes data(3000 * 7);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * 31);
    std::vector<iovec> parts;  // more than IOV_MAX, some of them empty
    for (std::size_t at = 0; at < data.size(); at += 7) {
        parts.push_back({data.data() + at, 7});
        if (at % 5 == 0) parts.push_back({nullptr, 0});
    }
    const std::uint64_t offset = writer->reserve(data.size());
    ASSERT_TRUE(writer->write_at(offset, parts));
    writer->add_section(SectionType::meta, {});
    ASSERT_TRUE(writer->finish(Durable::no));
    const schema::Bytes file = test::load(folder.file("p"));
    EXPECT_TRUE(std::equal(data.begin(), data.end(), file.begin() + static_cast<std::ptrdiff_t>(offset)));
}

TEST(ImageWrite, HolesStayHoles) {
    const Folder folder;
    auto writer = ImageWriter::create(folder.fd(), "p", ImageKind::process);
    ASSERT_TRUE(writer);
    (void)writer->reserve(std::uint64_t{1} << 30);
    writer->add_section(SectionType::meta, schema::encode(schema::Process{}));
    ASSERT_TRUE(writer->finish(Durable::no));
    struct stat status {};
    ASSERT_EQ(::stat(folder.file("p").c_str(), &status), 0);
    EXPECT_LT(status.st_blocks * 512, 1 << 20);
    EXPECT_TRUE(open_process_image(folder.file("p")));
}

TEST(ImageWrite, SectionsOfAnyTypeAreKept) {
    const Folder folder;
    auto writer = ImageWriter::create(folder.fd(), "o", ImageKind::objects);
    ASSERT_TRUE(writer);
    const auto unknown = static_cast<SectionType>(four_letters("XTRA"));
    writer->add_section(unknown, {9, 9, 9});
    writer->add_section(SectionType::objects, schema::encode(schema::Objects{}));
    ASSERT_TRUE(writer->finish(Durable::no));
    const auto image = open_objects_image(folder.file("o"));
    ASSERT_TRUE(image) << image.error().what;
    ASSERT_TRUE(image->reader.section(unknown));
    EXPECT_EQ(image->reader.section(unknown)->size(), 3U);
    test::expect_damaged(image->reader.section(SectionType::meta), "no section META");
}

TEST(ImageWrite, ErrorsOfTheKernelAreReported) {
    const Folder folder;
    auto writer = ImageWriter::create(folder.fd(), "p", ImageKind::process);
    ASSERT_TRUE(writer);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{65536, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const schema::Bytes data(1 << 20);
    const auto written = writer->write_at(writer->reserve(data.size()), data);
    const auto finished = writer->finish(Durable::no);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().number, EFBIG);
    EXPECT_NE(written.error().what.find("image p"), std::string::npos);
    EXPECT_FALSE(finished);
}

// Not a test of speed (other work may share the machine): prints what it sees, and fails only far below.
}  // namespace
}  // namespace cairn
