// What cairn inspect shows.
#include <sys/mman.h>
#include <sys/user.h>

#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/inspect_show.h"
#include "cli/inspect_text.h"
#include "common/image/manifest.h"
#include "test/unit/image_file.h"

namespace cairn {
namespace {

using test::Folder;

// A shell with a pipeline of two, one of them with a zombie child; part 0, terminal pts/7.
class ImageInspect : public testing::Test {
  protected:
    void SetUp() override {
        auto shell = process(100, 50, "bash", "bash");
        shell.threads[0].registers = registers(61);
        add(shell, "bash");
        auto worker = process(110, 100, "python3", "python3\0-c\0import \x1b[31m");
        schema::Thread second;
        second.tid = ProgramId(111);
        second.name = "helper";
        second.registers = registers(-1);
        worker.threads.push_back(second);
        worker.actions.resize(64);
        worker.actions[SIGINT - 1].handler = ProgramAddress(0x1234);
        worker.actions[SIGPIPE - 1].handler = ProgramAddress(1);
        siginfo_t info{};
        info.si_signo = SIGUSR1;
        info.si_code = SI_USER;
        info.si_pid = 100;
        schema::Bytes bytes(sizeof info);
        std::memcpy(bytes.data(), &info, sizeof info);
        worker.pending.push_back(bytes);
        worker.threads[0].blocked = 1ULL << (SIGCHLD - 1);
        worker.threads[0].timeout_left = 1'500'000'000;
        worker.threads[0].registers = registers(230);
        worker.descriptors = {{ProgramFd(0), 1, false}, {ProgramFd(3), 2, true}};
        add(worker, "python3");
        auto dead = process(120, 110, "true", "");
        dead.run = schema::Run::zombie;
        dead.exit_status = 0x100;
        dead.threads.clear();
        add(dead, "true");
        auto last = process(130, 100, "wc", "wc");
        last.run = schema::Run::stopped;
        last.stop_signal = SIGTSTP;
        last.descriptors = {{ProgramFd(0), 1, false}};
        add(last, "wc");
        add_objects();
        manifest_.cid = "cid";
        manifest_.np = 4;
        manifest_.host = "here";
        if (!write_manifest(folder_.fd(), manifest_)) throw std::runtime_error("manifest");
    }

    static schema::Bytes registers(long call) {
        user_regs_struct values{};
        values.orig_rax = static_cast<unsigned long long>(call);
        values.rip = 0x401000;
        schema::Bytes bytes(sizeof values);
        std::memcpy(bytes.data(), &values, sizeof values);
        return bytes;
    }

    template <std::size_t N>
    static schema::Process process(std::int32_t number, std::int32_t parent, const char* name,
                                   const char (&arguments)[N]) {
        schema::Process process;
        process.uid = fmt::format("u-{}-1", number);
        process.pid = process.pgid = ProgramId(number);
        process.ppid = ProgramId(parent);
        process.sid = ProgramId(100);
        process.name = name;
        process.terminal = 9;
        process.foreground = ProgramId(110);
        process.threads.resize(1);
        process.threads[0].tid = process.pid;
        process.threads[0].name = name;
        schema::Area stack;
        stack.start = ProgramAddress(0x7ffffff00000);
        stack.end = ProgramAddress(0x7ffffff10000);
        stack.prot = PROT_READ | PROT_WRITE;
        stack.name = "[stack]";
        stack.grows_down = true;
        process.areas.push_back(stack);
        // Across the border of two pages that are two runs.
        process.layout.arg_start = stack.start + image_page - 3;
        process.layout.arg_end = process.layout.arg_start + N;
        arguments_ = std::string(arguments, N);
        return process;
    }

    void add(schema::Process process, const std::string& file) {
        auto writer = ImageWriter::create(folder_.fd(), file, ImageKind::process);
        if (!writer) throw std::runtime_error(writer.error().what);
        schema::Bytes pages(2 * image_page);
        std::copy(arguments_.begin(), arguments_.end(), pages.begin() + image_page - 3);
        for (std::size_t i = 0; i < 2; ++i) {
            const auto page = std::span(pages).subspan(i * image_page, image_page);
            const std::uint64_t offset = writer->reserve(page.size());
            if (!writer->write_at(offset, page)) throw std::runtime_error("write_at");
            process.areas[0].pages.push_back(
                {process.areas[0].start + i * image_page, image_page, offset, run_hash(page)});
        }
        finish(*writer, SectionType::meta, schema::encode(process),
               {file, process.uid, process.pid, process.name, 0, 1});
    }

    void add_objects() {
        schema::Objects objects;
        objects.objects.resize(3);
        objects.objects[0].id = 9;
        objects.objects[0].what = schema::Terminal{};
        objects.objects[0].path = "/dev/pts/7";
        objects.objects[1].id = 1;
        objects.objects[1].what = schema::Pipe{};
        objects.objects[1].pipe = 5;
        objects.objects[1].contents = {{1, 2, 3}};
        objects.objects[2].id = 2;
        objects.objects[2].path = "/tmp/log";
        objects.objects[2].flags = O_WRONLY | O_APPEND;
        objects.objects[2].position = 77;
        auto writer = ImageWriter::create(folder_.fd(), "objects", ImageKind::objects);
        if (!writer) throw std::runtime_error(writer.error().what);
        finish(*writer, SectionType::objects, schema::encode(objects), {"objects", "", {}, "", 0, 0});
    }

    void finish(ImageWriter& writer, SectionType type, schema::Bytes data, schema::ManifestImage image) {
        writer.add_section(type, std::move(data));
        const auto size = writer.finish(Durable::no);
        if (!size) throw std::runtime_error(size.error().what);
        image.bytes = *size;
        manifest_.images.push_back(image);
    }

    [[nodiscard]] inspect::Checkpoint load(const std::string& file = "") const {
        auto loaded = inspect::load(file.empty() ? folder_.path() : folder_.file(file));
        if (!loaded) throw std::runtime_error(loaded.error().what);
        return *std::move(loaded);
    }

    Folder folder_;
    schema::Manifest manifest_;
    static inline std::string arguments_;
};

void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin:\n" << text;
}

TEST_F(ImageInspect, Tree) {
    EXPECT_EQ(inspect::process_tree(load()),
              "PPID  PID  PGID  SID  TTY    STAT  THR    MAPPED   STORED  COMMAND\n"
              "  50  100   100  100  pts/7  Rs      1  64.0 KiB  8.0 KiB  bash\n"
              " 100  110   110  100  pts/7  Rl+     2  64.0 KiB  8.0 KiB   \\_ python3 -c import \\x1b[31m\n"
              " 110  120   120  100  pts/7  Z       0  64.0 KiB  8.0 KiB   |   \\_ true <defunct>\n"
              " 100  130   130  100  pts/7  T       1  64.0 KiB  8.0 KiB   \\_ wc\n");
}

TEST_F(ImageInspect, RingOfParentsIsShown) {
    auto checkpoint = load();
    checkpoint.processes[0].process.ppid = ProgramId(110);
    const std::string tree = inspect::process_tree(checkpoint);
    for (const char* pid : {" 100 ", " 110 ", " 120 ", " 130 "}) expect_has(tree, pid);
}

TEST_F(ImageInspect, Details) {
    const auto checkpoint = load();
    const std::string text =
        inspect::process_details(checkpoint, checkpoint.processes[1], {true, true, true, true});
    expect_has(text, "7ffffff00000-7ffffff10000  rw-p  anonymous  64.0 KiB  8.0 KiB  [stack]  grows down");
    expect_has(text, "pipe 5, read end, 3 bytes in it, shared by 2 descriptors");
    expect_has(text, "/tmp/log (write, append, at 77)");
    expect_has(text, "handled         INT");
    expect_has(text, "ignored         PIPE");
    expect_has(text, "pending         USR1 (from 100)");
    expect_has(text, "blocked by 110  CHLD");
    expect_has(text, "clock_nanosleep, 1.5 s left");
    expect_has(text, "runs at 0x401000");
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(ImageInspect, SingleImageFindsItsObjects) {
    const auto checkpoint = load("python3");
    ASSERT_EQ(checkpoint.processes.size(), 1U);
    EXPECT_FALSE(checkpoint.manifest);
    expect_has(inspect::descriptors_text(checkpoint, checkpoint.processes[0]), "/tmp/log");
    const auto objects = load("objects");
    EXPECT_TRUE(objects.processes.empty());
    ASSERT_EQ(objects.objects.size(), 1U);
    expect_has(inspect::object_list(objects.objects[0]), "terminal /dev/pts/7");
}

TEST_F(ImageInspect, FoldersOfAnyLevel) {
    namespace fs = std::filesystem;
    const Folder top;
    fs::create_directories(top.file("cid/3"));
    fs::create_directories(top.file("cid/20"));
    fs::create_directories(top.file("cid/21.partial"));
    const auto nothing = inspect::load(top.file("cid"));
    ASSERT_FALSE(nothing);
    expect_has(nothing.error().what, "holds no complete checkpoint");
    for (const char* generation : {"cid/3", "cid/20"})
        fs::copy(folder_.path(), top.file(generation), fs::copy_options::recursive);
    fs::create_directory_symlink("cid/3", top.file("latest"));
    const auto linked = inspect::load(top.path());
    ASSERT_TRUE(linked) << linked.error().what;
    EXPECT_TRUE(linked->folder.ends_with("/cid/3")) << linked->folder;
    const auto newest = inspect::load(top.file("cid"));
    ASSERT_TRUE(newest) << newest.error().what;
    EXPECT_TRUE(newest->folder.ends_with("/cid/20")) << newest->folder;
    EXPECT_FALSE(inspect::load(top.file("missing")));
}

TEST_F(ImageInspect, DamageIsReportedAndTheRestShown) {
    schema::Bytes data = test::load(folder_.file("bash"));
    data[image_page + 5] ^= 1;  // a page
    test::store(folder_.file("bash"), data);
    data = test::load(folder_.file("wc"));
    data[2 * image_page + image_page + 20] ^= 1;  // its META
    test::store(folder_.file("wc"), data);
    auto checkpoint = load();
    EXPECT_EQ(checkpoint.processes.size(), 3U);
    ASSERT_EQ(checkpoint.problems.size(), 1U);
    expect_has(checkpoint.problems[0].what, "wc: section META is damaged");
    inspect::verify(checkpoint);
    ASSERT_EQ(checkpoint.problems.size(), 2U);
    expect_has(checkpoint.problems[1].what, "bash: pages for address");
    EXPECT_EQ(checkpoint.problems[1].code, ExitCode::damaged);
}

TEST_F(ImageInspect, JsonIsComplete) {
    const auto json = inspect::as_json(load());
    EXPECT_EQ(json.at("processes").size(), 4U);
    EXPECT_EQ(json.at("processes")[1].at("threads").size(), 2U);
    EXPECT_EQ(json.at("processes")[1].at("stored_bytes"), 8192);
    EXPECT_EQ(json.at("objects")[0].at("objects").size(), 3U);
    EXPECT_EQ(json.at("manifest").at("np"), 4);
    EXPECT_TRUE(nlohmann::json::accept(schema::dump(json)));
}

TEST(ImageInspectText, Sizes) {
    EXPECT_EQ(inspect::human_size(0), "0");
    EXPECT_EQ(inspect::human_size(1023), "1023");
    EXPECT_EQ(inspect::human_size(1024), "1.0 KiB");
    EXPECT_EQ(inspect::human_size((1 << 20) - 1), "1.0 MiB");
    EXPECT_EQ(inspect::human_size(std::uint64_t{3} << 29), "1.5 GiB");
    EXPECT_EQ(inspect::human_size(~std::uint64_t{0}), "16.0 EiB");
    EXPECT_EQ(inspect::human_time(12), "12 ns");
    EXPECT_EQ(inspect::human_time(1'500'000), "1.5 ms");
}

TEST(ImageInspectText, Signals) {
    EXPECT_EQ(inspect::signal_set(0), "-");
    EXPECT_EQ(inspect::signal_set(~0ULL), "all");
    EXPECT_EQ(inspect::signal_set(1ULL << 1 | 1ULL << 33), "INT RTMIN");
    EXPECT_EQ(inspect::signal_set(~(1ULL << 8 | 1ULL << 18)), "all but KILL STOP");
    EXPECT_EQ(inspect::call_name(0), "read");
    EXPECT_EQ(inspect::call_name(9999), "call 9999");
}

TEST(ImageInspectText, Printable) {
    EXPECT_EQ(printable("a\x1b[0m\n\x7f"), "a\\x1b[0m\\x0a\\x7f");
    EXPECT_EQ(printable("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    EXPECT_EQ(printable("\xc0\x80\xed\xa0\x80\xc2\x9b\xe2\x80\xae"),
              "\\xc0\\x80\\xed\\xa0\\x80\\xc2\\x9b\\xe2\\x80\\xae");
    EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
}

}  // namespace
}  // namespace cairn
