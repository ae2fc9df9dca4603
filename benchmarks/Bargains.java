// Bargain Discovery on Flink's DataStream API, for `bench_peers.py`: ticks from memory, state by ticker, a count.
// The file and what is printed are those of `peers_processors.py`.

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.flink.api.common.accumulators.DoubleCounter;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
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
    }

    public static class Recent {
        public double[] worth = new double[5];
        public long[] volume = new long[5];
        public int at;
        public double average;
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
                trades.worth[trades.at] = tick.price * tick.size;
                trades.volume[trades.at] = tick.size;
                trades.at = (trades.at + 1) % 5;
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
        int cores = Runtime.getRuntime().availableProcessors();
        for (int round = 0; round < 2; round++) {
            StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(cores);
            env.getConfig().enableObjectReuse();
            DataStream<Tick> ticks = env.fromSequence(0, tuples - 1).setParallelism(1)
                .map(at -> tick(at.intValue())).setParallelism(1).returns(Tick.class);
            ticks.keyBy(tick -> tick.ticker, Types.INT).process(new Match()).sinkTo(new DiscardingSink<>());
            var result = env.execute();
            if (round == 1) {
                System.out.printf("{\"seconds\": %s, \"bargains\": %s, \"gain\": %s}%n", result.getNetRuntime() / 1000.0,
                    result.getAccumulatorResult("bargains"), result.getAccumulatorResult("gain"));
            }
        }
    }
}
