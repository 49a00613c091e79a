// Readers of the kernel's log are captured and restored without a checkpoint; and how they are brought to a
// record, in logs that are made up.
// root: the kernel's log is for who has CAP_SYSLOG

#include <algorithm>
#include <random>

#include "resources/kmsg/schema_log.h"
#include "test/unit/objects_support.h"
#include "test/unit/without_capabilities.h"

namespace cairn::test {
namespace {

// A log that has room for so many records, and whose writers write at random moments: at most `more` times.
struct MadeUpLog {
    std::mt19937_64& random;
    std::uint64_t room, end, cleared;
    int more = 0;

    [[nodiscard]] std::uint64_t oldest() const { return end > room ? end - room : 0; }
    void let_write() {
        if (more == 0 || random() % 2 == 0) return;
        --more;
        end += random() % 4;
    }
};

// As devkmsg_read(), devkmsg_llseek() and devkmsg_poll().
class MadeUpReader final : public LogReader {
  public:
    MadeUpReader(MadeUpLog& log, std::uint64_t begin) : position(begin), log_(log) {}
    std::expected<std::uint64_t, int> read() override {
        log_.let_write();
        if (position >= log_.end) return std::unexpected(EAGAIN);
        if (position < log_.oldest()) {
            position = log_.oldest();
            return std::unexpected(EPIPE);
        }
        return position++;
    }
    void to_oldest() override {
        log_.let_write();
        position = log_.oldest();
    }
    void to_cleared() override {
        log_.let_write();
        position = log_.cleared;
    }
    NextRecord next() override {
        log_.let_write();
        if (position >= log_.end) return NextRecord::none;
        return position < log_.oldest() ? NextRecord::overwritten : NextRecord::there;
    }
    std::uint64_t position;

  private:
    MadeUpLog& log_;
};

MadeUpLog made_up_log(std::mt19937_64& random, int more) {
    MadeUpLog log{.random = random, .room = 1 + random() % 20, .end = 1 + random() % 60, .cleared = 0};
    if (random() % 2 == 0) log.cleared = random() % (log.end + 1);
    log.more = more;
    return log;
}

TEST(KmsgLog, GoesToARecordThatIsThere) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        MadeUpLog log = made_up_log(random, 0);
        MadeUpReader reader(log, random() % 60), scout(log, 0);
        const std::uint64_t wanted = random() % (log.end + 3);
        const Arrival arrival = go_to(reader, scout, wanted);
        if (wanted > log.end) {
            ASSERT_EQ(arrival, Arrival::end);
            ASSERT_EQ(reader.position, log.end);
        } else if (wanted >= log.oldest()) {
            ASSERT_EQ(arrival, Arrival::there);
            ASSERT_EQ(reader.position, wanted);
        } else if (log.cleared < log.oldest()) {
            ASSERT_EQ(arrival, Arrival::overwritten);
            ASSERT_EQ(reader.next(), NextRecord::overwritten);
        } else {
            ASSERT_EQ(arrival, Arrival::oldest);
            ASSERT_EQ(reader.position, log.oldest());
        }
    }
}

// Whatever is written meanwhile, a reader is where it was, or its record is gone and this is said.
TEST(KmsgLog, FindsAndPutsBackWhileOthersWrite) {
    std::mt19937_64 random(2);
    int seen[4] = {};
    for (int i = 0; i < 100'000; ++i) {
        MadeUpLog log = made_up_log(random, static_cast<int>(random() % 40));
        const std::uint64_t wanted = log.oldest() + random() % (log.end - log.oldest());
        MadeUpReader reader(log, wanted), scout(log, 0);
        const FoundRecord found = find_next(reader, scout);
        log.more = 0;
        ASSERT_EQ(found.problem, 0);
        ++seen[static_cast<int>(found.arrival)];
        if (found.arrival == Arrival::there) {
            ASSERT_EQ(found.next, wanted);
            ASSERT_EQ(reader.position, wanted);
            continue;
        }
        ASSERT_NE(found.arrival, Arrival::end);
        ASSERT_LT(wanted, log.oldest());
        ASSERT_LT(found.next, log.oldest());
        if (found.arrival == Arrival::overwritten) {
            ASSERT_EQ(reader.next(), NextRecord::overwritten);
        }
    }
    for (const Arrival each : {Arrival::there, Arrival::overwritten, Arrival::oldest})
        EXPECT_GT(seen[static_cast<int>(each)], 100);
}

TEST(KmsgLog, FindsTheEndAndWhatWasOverwritten) {
    std::mt19937_64 random(3);
    for (int i = 0; i < 1000; ++i) {
        MadeUpLog log = made_up_log(random, 0);
        MadeUpReader scout(log, 0);
        ASSERT_EQ(end_of_log(scout), log.end);
        ASSERT_EQ(oldest_record(scout), log.oldest());
        if (log.oldest() > 0) {
            ASSERT_EQ(overwritten_record(scout), log.oldest() - 1);
        }
    }
}

bool may_use_log() {
    return static_cast<bool>(Fd(::open("/dev/kmsg", O_RDWR | O_CLOEXEC)));
}
#define NEED_LOG \
    if (!may_use_log()) GTEST_SKIP() << "/dev/kmsg can't be opened"

// By a description of its own, of which the kernel takes few records in a second.
void log_line(const std::string& text) {
    const Fd fd(::open("/dev/kmsg", O_WRONLY | O_CLOEXEC));
    const std::string line = "<7>cairn-test " + text + "\n";
    if (::write(fd.get(), line.data(), line.size()) < 0) std::abort();
}
int log_reader(int flags = O_RDONLY | O_NONBLOCK) {
    return ::open("/dev/kmsg", flags | O_CLOEXEC);
}
// The number of the record that is read next; -errno: why there is none.
std::int64_t take_record(int fd) {
    const auto number = KernelLog(fd).read();
    return number ? static_cast<std::int64_t>(*number) : -number.error();
}
// Where the log is full, each record that comes overwrites the oldest.
std::int64_t read_to_end(int fd) {
    std::int64_t last = -1;
    for (std::int64_t number = 0; (number = take_record(fd)) >= 0 || number == -EPIPE;)
        last = std::max(last, number);
    return last;
}
bool has_note(const Checkpoint& checkpoint, std::string_view words) {
    return std::ranges::any_of(checkpoint.notes,
                               [&](const std::string& note) { return note.contains(words); });
}

// The checkpoint's image says something else of all readers.
void change_position(Checkpoint& checkpoint, const std::function<void(schema::KmsgPosition&)>& change) {
    schema::Objects objects = checkpoint.objects();
    for (schema::Object& object : objects.objects)
        if (auto* saved = object.get<schema::Kmsg>(); saved != nullptr && saved->position)
            change(*saved->position);
    std::filesystem::remove(checkpoint.folder / "objects");
    auto writer = ImageWriter::create(AT_FDCWD, checkpoint.folder / "objects", ImageKind::objects);
    ASSERT_TRUE(writer) << writer.error().what;
    writer->add_section(SectionType::objects, schema::encode(objects));
    ASSERT_TRUE(writer->finish(Durable::no));
}

TEST(ObjectsKmsg, GoOnWhereTheyWere) {
    NEED_LOG;
    log_line("go on");
    const Fd before(log_reader());
    const std::int64_t last = read_to_end(before.get());
    Stopped process([&] {
        at(120, log_reader(O_RDWR));  // one that waits where there is nothing
        at(121, log_reader());
        at(122, log_reader(O_WRONLY));
        at(123, ::fcntl(120, F_DUPFD, 130));
        log_line("go on, first");
        read_to_end(121);
        std::int64_t number = 0;
        while (number < last) number = take_record(120);
    });
    Checkpoint checkpoint;
    capture::ObjectTable table;
    checkpoint.add(table, process);
    checkpoint.finish(table);
    // The program itself goes on, and nothing has moved for it.
    const auto duplicate = [&](int fd) {
        return Fd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.holder().pidfd, fd, 0)));
    };
    log_line("go on, second");
    const std::int64_t next = last + 1, end = take_record(duplicate(121).get());
    EXPECT_EQ(take_record(duplicate(120).get()), next);
    EXPECT_GE(end, next + 1);
    process.end();
    const schema::Objects objects = checkpoint.objects();
    EXPECT_FALSE(checkpoint.object_at(objects, 122).get<schema::Kmsg>()->position);
    checkpoint.restore([&](std::size_t) {
        CHILD_CHECK(take_record(120) == next && take_record(123) == next + 1);
        CHILD_CHECK(take_record(121) == end);
        char byte;
        CHILD_CHECK(::read(122, &byte, 1) == -1 && errno == EBADF);
        CHILD_CHECK((::fcntl(120, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_RDWR);
        CHILD_CHECK((::fcntl(121, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_RDONLY | O_NONBLOCK));
        CHILD_CHECK(same_description(120, 123) && ::write(122, "<7>cairn-test\n", 14) == 14);
    });
    EXPECT_FALSE(has_note(checkpoint, "kmsg"));
}

TEST(ObjectsKmsg, BeginOnAnotherBoot) {
    NEED_LOG;
    Stopped process([&] {
        at(120, log_reader());
        read_to_end(120);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    change_position(checkpoint, [](schema::KmsgPosition& position) {
        EXPECT_GT(position.next, 0U);
        position.boot.front() = position.boot.front() == '0' ? '1' : '0';
    });
    // Others write meanwhile: what the log begins with is overwritten under any of the readers.
    const std::int64_t first = take_record(log_reader());
    checkpoint.restore([&](std::size_t) {
        const std::int64_t before = take_record(log_reader()), got = take_record(120);
        const std::int64_t after = take_record(log_reader());
        CHILD_CHECK(got == -EPIPE ? first < after || after == -EPIPE : got <= before || before == -EPIPE);
    });
    EXPECT_TRUE(has_note(checkpoint,
                         "/dev/kmsg: the machine was booted since the checkpoint, or is another one: who "
                         "reads the kernel's log goes on with the first record of this boot"));
}

// A machine that was put back to what it was.
TEST(ObjectsKmsg, BehindTheEndWaitAtTheEnd) {
    NEED_LOG;
    Stopped process([&] { at(120, log_reader()); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    change_position(checkpoint, [](schema::KmsgPosition& position) { position.next = UINT64_MAX; });
    const Fd other(log_reader());
    const std::int64_t last = read_to_end(other.get());
    checkpoint.restore([&](std::size_t) {
        log_line("behind the end");
        CHILD_CHECK(take_record(120) > last);
    });
    EXPECT_TRUE(has_note(checkpoint, "the log ends before the record 18446744073709551615"));
}

TEST(ObjectsKmsg, OverwrittenRecordsAreMissed) {
    NEED_LOG;
    const Fd scout(log_reader());
    ::lseek(scout.get(), 0, SEEK_DATA);
    if (KernelLog(scout.get()).next() != NextRecord::overwritten)
        GTEST_SKIP() << "nothing of the log was overwritten, or it was cleared after that";
    Stopped process([&] {
        at(120, log_reader());
        ::lseek(120, 0, SEEK_DATA);
        at(121, log_reader());
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    change_position(checkpoint, [overwritten = std::uint64_t{0}](schema::KmsgPosition& position) mutable {
        // As if what the second one wanted had been overwritten since.
        if (overwritten != 0) position.next = overwritten;
        overwritten = position.next;
    });
    checkpoint.restore([&](std::size_t) {
        for (const int fd : {120, 121}) CHILD_CHECK(take_record(fd) == -EPIPE);
        CHILD_CHECK(read_to_end(120) >= 0);
    });
    EXPECT_FALSE(has_note(checkpoint, "kmsg"));
}

TEST(ObjectsKmsg, ThatMayNotBeOpenedAreRefused) {
    NEED_LOG;
    const int inherited = log_reader();
    const Fd owned(inherited);
    const WithoutCapabilities less({CAP_SYSLOG, CAP_SYS_ADMIN});
    if (may_use_log()) GTEST_SKIP() << "everybody may read the log";
    expect_refused([&] { at(120, ::dup(inherited)); },
                   "reads the kernel's log, which you may not open, and so a restart couldn't either: take "
                   "the checkpoint as root, allow it (sysctl kernel.dmesg_restrict=0), or close it before a "
                   "checkpoint");
}

}  // namespace
}  // namespace cairn::test
