// Bargain Discovery on Flink's DataStream API, for `bench_peers.py`: ticks from memory, state by ticker, a count, and
// files of what was found where a directory is given. The ticks and what is printed are those of `peers_processors.py`.
//
//     Bargains TICKS TUPLES chained|apart [DIRECTORY]
//
// chained   one keyed function, and whatever Flink lets follow it in the same thread: as our one element has it
// apart     an operator each for what our elements do, none chained, so that every tick is sent from each to the next.
//           In a line, because Flink does not take two inputs in the order of their time: so quotes pass the
//           aggregate, which gives them the sums of their ticker, and the average and the comparison follow.

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.flink.api.common.accumulators.DoubleCounter;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public class Bargains {
    static int[] ticker;
    static boolean[] quote;
    static double[] price;
    static long[] size;

    public static class Tick {
        public int ticker;
        public boolean quote;
        public double price;
        public long size;
    }

    public static class Found {
        public int ticker;
        public double gain;

        public String toString() {
            return ticker + "," + gain;
        }
    }

    // A tick on its way from operator to operator.
    public static class Passing {
        public int ticker;
        public boolean quote;
        public double price;
        public long size;
        public double worth;
        public long volume;
        public double average;
    }

    public static class Recent {
        public double[] worth = new double[5];
        public long[] volume = new long[5];
        public int at;
        public double average;

        void add(Tick trade) {
            worth[at] = trade.price * trade.size;
            volume[at] = trade.size;
            at = (at + 1) % 5;
        }
    }

    public static class Match extends KeyedProcessFunction<Integer, Tick, Found> {
        private ValueState<Recent> recent;
        private final LongCounter bargains = new LongCounter();
        private final DoubleCounter gain = new DoubleCounter();

        public void open(OpenContext context) {
            recent = getRuntimeContext().getState(new ValueStateDescriptor<>("recent", Recent.class));
            getRuntimeContext().addAccumulator("bargains", bargains);
            getRuntimeContext().addAccumulator("gain", gain);
        }

        public void processElement(Tick tick, Context context, Collector<Found> out) throws Exception {
            Recent trades = recent.value();
            if (!tick.quote) {
                if (trades == null) trades = new Recent();
                trades.add(tick);
                double worth = 0;
                long volume = 0;
                for (int i = 0; i < 5; i++) {
                    worth += trades.worth[i];
                    volume += trades.volume[i];
                }
                trades.average = worth / volume;
                recent.update(trades);
            } else if (trades != null && trades.average > tick.price) {
                Found found = new Found();
                found.ticker = tick.ticker;
                found.gain = tick.size * (trades.average - tick.price);
                bargains.add(1);
                gain.add(found.gain);
                out.collect(found);
            }
        }
    }

    public static class Aggregate extends KeyedProcessFunction<Integer, Tick, Passing> {
        private ValueState<Recent> recent;

        public void open(OpenContext context) {
            recent = getRuntimeContext().getState(new ValueStateDescriptor<>("recent", Recent.class));
        }

        public void processElement(Tick tick, Context context, Collector<Passing> out) throws Exception {
            Recent trades = recent.value();
            if (!tick.quote) {
                if (trades == null) trades = new Recent();
                trades.add(tick);
                recent.update(trades);
            } else if (trades != null) {
                Passing passing = new Passing();
                passing.ticker = tick.ticker;
                passing.quote = tick.quote;
                passing.price = tick.price;
                passing.size = tick.size;
                for (int i = 0; i < 5; i++) {
                    passing.worth += trades.worth[i];
                    passing.volume += trades.volume[i];
                }
                out.collect(passing);
            }
        }
    }

    public static class Compare extends RichFlatMapFunction<Passing, Found> {
        private final LongCounter bargains = new LongCounter();
        private final DoubleCounter gain = new DoubleCounter();

        public void open(OpenContext context) {
            getRuntimeContext().addAccumulator("bargains", bargains);
            getRuntimeContext().addAccumulator("gain", gain);
        }

        public void flatMap(Passing passing, Collector<Found> out) {
            if (passing.average > passing.price) {
                Found found = new Found();
                found.ticker = passing.ticker;
                found.gain = passing.size * (passing.average - passing.price);
                bargains.add(1);
                gain.add(found.gain);
                out.collect(found);
            }
        }
    }

    static DataStream<Found> apart(DataStream<Tick> ticks) {
        return ticks.filter(tick -> tick.size > 0).setParallelism(1)
            .keyBy(tick -> tick.ticker, Types.INT).process(new Aggregate())
            .map(passing -> {
                passing.average = passing.worth / passing.volume;
                return passing;
            }).returns(Passing.class)
            .flatMap(new Compare());
    }

    static Tick tick(int at) {
        Tick tick = new Tick();
        tick.ticker = ticker[at];
        tick.quote = quote[at];
        tick.price = price[at];
        tick.size = size[at];
        return tick;
    }

    public static void main(String[] given) throws Exception {
        ByteBuffer all = ByteBuffer.wrap(Files.readAllBytes(Paths.get(given[0]))).order(ByteOrder.LITTLE_ENDIAN);
        int tuples = Integer.parseInt(given[1]);
        ticker = new int[tuples];
        quote = new boolean[tuples];
        price = new double[tuples];
        size = new long[tuples];
        for (int i = 0; i < tuples; i++) {
            ticker[i] = all.getInt();
            quote[i] = all.getInt() != 0;
            price[i] = all.getDouble();
            size[i] = all.getLong();
        }
        boolean apart = given[2].equals("apart");
        int cores = Runtime.getRuntime().availableProcessors();
        for (int round = 0; round < 2; round++) {
            StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(cores);
            env.getConfig().enableObjectReuse();
            if (apart) env.disableOperatorChaining();
            DataStream<Tick> ticks = env.fromSequence(0, tuples - 1).setParallelism(1)
                .map(at -> tick(at.intValue())).setParallelism(1).returns(Tick.class);
            DataStream<Found> found =
                apart ? apart(ticks) : ticks.keyBy(tick -> tick.ticker, Types.INT).process(new Match());
            if (given.length > 3) {
                Path directory = new Path(given[3], "round-" + round);
                found.sinkTo(FileSink.forRowFormat(directory, new SimpleStringEncoder<Found>()).build());
            } else {
                found.sinkTo(new DiscardingSink<>());
            }
            var result = env.execute();
            if (round == 1) {
                System.out.printf("{\"seconds\": %s, \"bargains\": %s, \"gain\": %s}%n", result.getNetRuntime() / 1000.0,
                    result.getAccumulatorResult("bargains"), result.getAccumulatorResult("gain"));
            }
        }
    }
}
