//! The name of a program that an interpreter runs, from its arguments: `orders` for
//! `java -jar orders-1.2.jar`, the package's name for `node server.js`, `shop` for
//! `gunicorn shop.wsgi:app`. An interpreter's own name says nothing.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::facts::Facts;

/// Largest `package.json` that is read.
const MAX_PACKAGE_BYTES: u64 = 64 * 1024;
/// Folders above a script in which its `package.json` is looked for.
const MAX_LEVELS: usize = 4;
/// Longest name.
const MAX_NAME_BYTES: usize = 64;

/// Names of files, modules and folders that say nothing about a program.
const GENERIC: [&str; 28] = [
    "__main__",
    "api",
    "app",
    "application",
    "asgi",
    "bin",
    "boot",
    "bootstrap",
    "cli",
    "cmd",
    "code",
    "config",
    "dist",
    "build",
    "index",
    "lib",
    "main",
    "manage",
    "program",
    "run",
    "script",
    "server",
    "service",
    "src",
    "start",
    "wsgi",
    "www",
    "worker",
];

/// Launchers of Python programs, which are told the program as an argument.
const LAUNCHERS: [&str; 17] = [
    "gunicorn",
    "uvicorn",
    "hypercorn",
    "daphne",
    "granian",
    "waitress-serve",
    "celery",
    "flask",
    "fastapi",
    "django-admin",
    "rq",
    "dramatiq",
    "huey_consumer",
    "arq",
    "ddtrace-run",
    "opentelemetry-instrument",
    "uwsgi",
];

/// Options of `java` whose value is the next argument.
const JAVA_OPTIONS: [&str; 14] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--add-exports",
    "--add-opens",
    "--add-reads",
    "--limit-modules",
    "--patch-module",
    "--source",
    "-d",
];

/// Options of `node` whose value is the next argument.
const NODE_OPTIONS: [&str; 9] = [
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-C",
    "--conditions",
    "--env-file",
    "--title",
];

/// Main classes that start another program.
const JAVA_LAUNCHERS: [&str; 8] = [
    "JarLauncher",
    "WarLauncher",
    "PropertiesLauncher",
    "QuarkusEntryPoint",
    "Bootstrap",
    "BootstrapMain",
    "Launcher",
    "Main",
];

/// The program's name. `root` is where the process's files can be read (`/proc/PID/root`).
/// `None` if the executable's own name is as good.
pub(super) fn name(facts: &Facts, root: &Path) -> Option<String> {
    let executable = facts.executable.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let files = Files { root, directory: facts.directory.as_deref() };
    let arguments = facts.arguments.get(1..).unwrap_or_default();
    let found = match executable {
        "java" => java(facts, arguments, &files),
        "node" | "nodejs" | "bun" | "deno" | "tsx" => node(facts, arguments, &files),
        "python" | "pypy" | "gunicorn" | "uvicorn" | "celery" | "uwsgi" => {
            python(facts, arguments, &files)
        }
        "ruby" | "puma" | "perl" | "php" | "dotnet" => script(facts, arguments, &files),
        // Its title is all there is: `gunicorn: worker [shop.wsgi:app]`.
        _ => titled(facts),
    };
    let name = found?;
    let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(['/', '\0']);
    is_name.then_some(name)
}

/// Where the files of a process are.
struct Files<'a> {
    root: &'a Path,
    /// Its working directory.
    directory: Option<&'a Path>,
}

impl Files<'_> {
    /// The path as the process sees it.
    fn absolute(&self, path: &str) -> Option<PathBuf> {
        let path = self.directory.unwrap_or(Path::new("/")).join(path);
        // `..` is taken literally, so a link may lead elsewhere. It is only a name.
        let mut absolute = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    absolute.pop();
                }
                Component::CurDir => {}
                part => absolute.push(part),
            }
        }
        absolute.is_absolute().then_some(absolute)
    }

    /// The text of a small regular file.
    fn read(&self, path: &Path) -> Option<String> {
        let path = self.root.join(path.strip_prefix("/").ok()?);
        // Opening a pipe would wait for a writer.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        File::open(path).ok()?.take(MAX_PACKAGE_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// The name of a folder, or of the nearest one above it that says something.
    fn folder(folder: &Path) -> Option<String> {
        let names = folder.components().rev().filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        let telling = names.take(MAX_LEVELS).find(|name| !is_generic(name) && !is_place(name));
        telling.map(str::to_owned)
    }

    fn working_folder(&self) -> Option<String> {
        Self::folder(self.directory?)
    }

    /// The name of a script: its own, or its folder's.
    fn script(&self, path: &str) -> Option<String> {
        let path = self.absolute(path)?;
        let stem = path.file_stem()?.to_str()?;
        if !is_generic(stem) {
            return Some(stem.to_owned());
        }
        path.parent().and_then(Self::folder).or_else(|| Some(stem.to_owned()))
    }
}

fn is_generic(name: &str) -> bool {
    GENERIC.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Folders in which programs of all kinds are.
fn is_place(name: &str) -> bool {
    const PLACES: [&str; 14] = [
        "usr",
        "opt",
        "srv",
        "home",
        "root",
        "var",
        "tmp",
        "local",
        "workspace",
        "site-packages",
        "sbin",
        "current",
        "releases",
        "etc",
    ];
    PLACES.contains(&name) || name.starts_with('.') || name.starts_with("python")
}

/// `orders-1.2.3-SNAPSHOT` without its version.
fn without_version(stem: &str) -> &str {
    let version = stem.char_indices().find(|(at, byte)| {
        *byte == '-' && stem.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit)
    });
    version.map_or(stem, |(at, _)| &stem[..at]).trim_end_matches("-SNAPSHOT")
}

/// The service that the arguments of a JVM tell its agents: our own, or OpenTelemetry's.
pub(super) fn told_to_jvm_agents(facts: &Facts) -> Option<String> {
    let found =
        facts.arguments.iter().filter(|_| facts.executable == "java").filter_map(|argument| {
            if let Some(agent) = argument.strip_prefix("-javaagent:") {
                let (jar, options) = agent.split_once('=')?;
                let mut options = options.split(',').filter(|_| jar.contains("spanwise"));
                return options.find_map(|option| option.trim().strip_prefix("service="));
            }
            let property = argument.strip_prefix("-D")?;
            ["spanwise.service=", "otel.service.name="]
                .iter()
                .find_map(|key| property.strip_prefix(key))
        });
    found.map(str::trim).find(|name| !name.is_empty()).map(str::to_owned)
}

fn java(facts: &Facts, arguments: &[String], files: &Files<'_>) -> Option<String> {
    let mut arguments = arguments.iter();
    let mut told = None;
    while let Some(argument) = arguments.next() {
        if let Some(name) = argument.strip_prefix("-Dspring.application.name=") {
            told = Some(name.to_owned());
        } else if argument == "-jar" {
            let jar = Path::new(arguments.next()?).file_stem()?.to_str()?;
            let jar = without_version(jar);
            let after =
                arguments.find_map(|argument| argument.strip_prefix("--spring.application.name="));
            let told = after.map(str::to_owned).or(told).or_else(|| facts.spring_name.clone());
            let telling = (!is_generic(jar) && jar != "quarkus-run").then(|| jar.to_owned());
            return told.or(telling).or_else(|| files.working_folder());
        } else if argument == "-m" || argument == "--module" {
            return told.or_else(|| Some(main_class(arguments.next()?.rsplit('/').next()?)));
        } else if JAVA_OPTIONS.contains(&argument.as_str()) {
            arguments.next();
        } else if !argument.starts_with(['-', '@']) {
            let class = main_class(argument);
            let telling = !JAVA_LAUNCHERS.contains(&class.as_str());
            let told = told.or_else(|| facts.spring_name.clone());
            return told.or_else(
                || {
                    if telling { Some(class) } else { java_package(argument, files) }
                },
            );
        }
    }
    told.or_else(|| facts.spring_name.clone())
}

/// `OrdersApplication` of `com.acme.orders.OrdersApplication`.
fn main_class(class: &str) -> String {
    let class = class.trim_end_matches(".java");
    class.rsplit(['.', '/', '$']).next().unwrap_or_default().to_owned()
}

/// The package of a class whose own name says nothing; the working folder, where it is a launcher's.
fn java_package(class: &str, files: &Files<'_>) -> Option<String> {
    const LAUNCHING: [&str; 4] =
        ["org.springframework.boot.", "io.quarkus.", "org.apache.catalina.", "org.codehaus."];
    if LAUNCHING.iter().any(|package| class.starts_with(package)) {
        return files.working_folder();
    }
    class.rsplit('.').nth(1).filter(|package| !is_generic(package)).map(str::to_owned)
}

/// The first argument that is no option, nor an option's value.
fn first_plain<'a>(arguments: &'a [String], with_value: &[&str]) -> Option<(usize, &'a str)> {
    let mut skip = false;
    arguments.iter().enumerate().find_map(|(at, argument)| {
        if std::mem::take(&mut skip) {
            return None;
        }
        skip = with_value.contains(&argument.as_str());
        (!argument.starts_with('-')).then_some((at, argument.as_str()))
    })
}

fn node(facts: &Facts, arguments: &[String], files: &Files<'_>) -> Option<String> {
    let (at, mut script) = first_plain(arguments, &NODE_OPTIONS)?;
    let is_code =
        |option: &String| matches!(option.as_str(), "-e" | "--eval" | "-p" | "--print" | "eval");
    if arguments[..=at].iter().any(is_code) {
        return None;
    }
    // `deno run x`, `bun run x`.
    if matches!(script, "run" | "serve") {
        script = first_plain(&arguments[at + 1..], &NODE_OPTIONS)?.1;
    }
    let path = files.absolute(script)?;
    if path.components().any(|part| part.as_os_str() == "node_modules") {
        // A tool (a bundler, a process manager) runs the package where it was started.
        let directory = files.directory?;
        return package(files, directory)
            .or_else(|| facts.package_name.clone())
            .or_else(|| files.working_folder());
    }
    path.parent()
        .and_then(|folder| package(files, folder))
        .or_else(|| facts.package_name.clone())
        .or_else(|| files.script(script))
}

/// The name in the nearest `package.json`, without its scope.
fn package(files: &Files<'_>, folder: &Path) -> Option<String> {
    let text = folder
        .ancestors()
        .take(MAX_LEVELS)
        .find_map(|folder| files.read(&folder.join("package.json")))?;
    let package: serde_json::Value = serde_json::from_str(&text).ok()?;
    let name = package.get("name")?.as_str()?;
    Some(name.rsplit('/').next().unwrap_or(name).to_owned())
}

fn python(facts: &Facts, arguments: &[String], files: &Files<'_>) -> Option<String> {
    if let Some(name) = titled(facts) {
        return Some(name);
    }
    // An executable script of the same name as its launcher.
    let started = Path::new(&facts.executable).file_name()?.to_str()?;
    if LAUNCHERS.contains(&started) {
        return launched(started, arguments, facts, files);
    }
    let mut rest = arguments;
    loop {
        let (first, after) = rest.split_first()?;
        match first.as_str() {
            "-m" => {
                let (module, after) = after.split_first()?;
                let launcher = module.split('.').next().unwrap_or_default();
                if LAUNCHERS.contains(&launcher) {
                    return launched(launcher, after, facts, files);
                }
                return module_name(module).or_else(|| files.working_folder());
            }
            "-c" | "-" => return None,
            "-W" | "-X" | "--check-hash-based-pycs" => rest = after.get(1..)?,
            option if option.starts_with('-') => rest = after,
            script => {
                let launcher = Path::new(script).file_name()?.to_str()?;
                if LAUNCHERS.contains(&launcher) {
                    return launched(launcher, after, facts, files);
                }
                if launcher == "manage.py"
                    && let Some(name) = facts.django_settings.as_deref().and_then(module_name)
                {
                    return Some(name);
                }
                return files.script(script);
            }
        }
    }
}

/// The program that a launcher runs.
fn launched(
    launcher: &str,
    arguments: &[String],
    facts: &Facts,
    files: &Files<'_>,
) -> Option<String> {
    let value = |options: &[&str]| {
        arguments.iter().enumerate().find_map(|(at, argument)| {
            options.iter().find_map(|option| {
                if argument == option {
                    return arguments.get(at + 1).map(String::as_str);
                }
                argument.strip_prefix(option)?.strip_prefix('=')
            })
        })
    };
    let instrumented = matches!(launcher, "ddtrace-run" | "opentelemetry-instrument");
    if instrumented {
        let at = arguments.iter().position(|argument| !argument.starts_with('-'))?;
        let inner = Path::new(&arguments[at]).file_name()?.to_str()?;
        if LAUNCHERS.contains(&inner) {
            return launched(inner, &arguments[at + 1..], facts, files);
        }
        return python(
            &Facts { executable: "python".into(), ..facts.clone() },
            &arguments[at + 1..],
            files,
        );
    }
    let module = match launcher {
        "celery" => value(&["-A", "--app"]),
        "flask" => value(&["-A", "--app"]),
        "uwsgi" => value(&["-w", "--module", "--wsgi"]),
        "django-admin" => facts.django_settings.as_deref(),
        "fastapi" | "rq" => None,
        "dramatiq" | "arq" => first_plain(arguments, &[]).map(|(_, argument)| argument),
        _ => arguments.iter().map(String::as_str).find(|argument| is_application(argument)),
    };
    module.and_then(module_name).or_else(|| files.working_folder())
}

/// `shop.wsgi:app`.
fn is_application(argument: &str) -> bool {
    !argument.starts_with('-')
        && argument.split_once(':').is_some_and(|(module, object)| {
            let is_word = |text: &str| {
                text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
            };
            !object.is_empty() && is_word(module) && !object.bytes().all(|b| b.is_ascii_digit())
        })
}

/// The part of a module's path that says most: `shop` of `shop.wsgi:app`.
fn module_name(module: &str) -> Option<String> {
    let module = module.split(':').next().unwrap_or_default();
    let module = module.rsplit('/').next().unwrap_or_default().trim_end_matches(".py");
    let generic = |part: &&str| !part.is_empty() && !is_generic(part) && *part != "settings";
    module.split('.').find(generic).map(str::to_owned)
}

/// `gunicorn: worker [shop.wsgi:app]`, `puma 6.4 (tcp://0.0.0.0:9292) [shop]`.
fn titled(facts: &Facts) -> Option<String> {
    let [title] = facts.arguments.as_slice() else { return None };
    let begins = ["gunicorn: ", "puma", "puma: "].iter().any(|begin| title.starts_with(begin));
    let inner = title.rsplit_once('[')?.1.split(']').next()?;
    begins.then(|| module_name(inner)).flatten()
}

/// A script of an interpreter without particular rules.
fn script(facts: &Facts, arguments: &[String], files: &Files<'_>) -> Option<String> {
    if let Some(name) = titled(facts) {
        return Some(name);
    }
    let (at, first) = first_plain(arguments, &["-r", "-I", "-e", "-d", "-c", "-S", "-t"])?;
    let path = match first {
        "exec" => arguments.get(at + 1)?,
        first => first,
    };
    // A server of any Ruby program.
    if matches!(
        Path::new(path).file_name()?.to_str()?,
        "puma" | "rackup" | "unicorn" | "rails" | "sidekiq" | "bundle" | "artisan"
    ) {
        return files.working_folder();
    }
    files.script(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jvms_arguments_name_its_service() {
        let told = |command: &str| {
            let arguments: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let executable = "java".to_owned();
            told_to_jvm_agents(&Facts { executable, arguments, ..Facts::default() })
        };
        let agent = "-javaagent:/opt/spanwise-java-helper.jar";
        for (command, name) in [
            (format!("-cp x {agent}=endpoint=http://h:1,service=shop -jar a.jar"), Some("shop")),
            (format!("{agent} -Dspanwise.service=cart Main"), Some("cart")),
            ("-javaagent:/opt/opentelemetry.jar -Dotel.service.name=pay Main".into(), Some("pay")),
            ("-javaagent:/opt/other.jar=service=no Main".into(), None),
            (format!("{agent}=service= Main"), None),
        ] {
            assert_eq!(told(&command).as_deref(), name, "{command}");
        }
    }

    fn named(command: &str, directory: &str) -> Option<String> {
        let arguments: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let executable = arguments[0].rsplit('/').next().unwrap_or_default().to_owned();
        let directory = Some(PathBuf::from(directory));
        let facts = Facts { executable, arguments, directory, ..Facts::default() };
        name(&facts, Path::new("/nonexistent"))
    }

    #[test]
    fn programs_of_interpreters_are_named_by_what_they_run() {
        let cases = [
            (
                "java -Xmx1g -cp /a:/b com.acme.orders.OrdersApplication --x",
                "/",
                "OrdersApplication",
            ),
            ("java -javaagent:/a.jar -jar /opt/shop/orders-1.2.3-SNAPSHOT.jar", "/", "orders"),
            ("java -jar app.jar", "/srv/pricing", "pricing"),
            ("java -Dspring.application.name=cart -jar app.jar", "/", "cart"),
            ("java org.springframework.boot.loader.launch.JarLauncher", "/opt/cart", "cart"),
            ("java com.acme.cart.Main", "/", "cart"),
            ("java kafka.Kafka config/server.properties", "/", "Kafka"),
            ("java -p mods -m com.acme/com.acme.cart.Cart", "/", "Cart"),
            ("node --require ./a.js catalog.js", "/srv/x", "catalog"),
            ("node server.js", "/srv/catalog", "catalog"),
            ("node /srv/catalog/dist/main.js", "/", "catalog"),
            ("node /srv/web/node_modules/.bin/next start", "/srv/web", "web"),
            ("deno run -A pricing.ts", "/", "pricing"),
            ("python3.11 -u /srv/pricing.py 8102", "/", "pricing"),
            ("python3 app.py", "/home/ann/payments", "payments"),
            ("python3 -m shop.main", "/", "shop"),
            ("python3 -m http.server 80", "/", "http"),
            ("python3 -m uvicorn --port 80 main:app", "/srv/mail", "mail"),
            ("python3 /usr/bin/gunicorn -b 0.0.0.0:8000 shop.wsgi:application", "/", "shop"),
            ("gunicorn -w 4 shop.wsgi", "/srv/site", "site"),
            ("python3 /usr/local/bin/celery -A tasks worker", "/", "tasks"),
            ("python3 /usr/bin/flask --app store run", "/", "store"),
            ("python3 /usr/bin/opentelemetry-instrument gunicorn shop:app", "/", "shop"),
            ("ruby /usr/bin/puma -t 8:8", "/srv/forum/current", "forum"),
            ("ruby clock.rb", "/", "clock"),
            ("dotnet Cart.Api.dll", "/", "Cart.Api"),
            ("python3 ../jobs/run.py", "/srv/web", "jobs"),
        ];
        for (command, directory, expected) in cases {
            assert_eq!(named(command, directory).as_deref(), Some(expected), "{command}");
        }
        for command in ["python3", "python3 -c x", "nginx -g daemon", "java -version", "node -e 1"]
        {
            assert_eq!(named(command, "/"), None, "{command}");
        }
    }

    #[test]
    fn titles_and_environment_tell_names() {
        let titled = |executable: &str, title: &str| {
            let arguments = vec![title.to_owned()];
            let facts = Facts { executable: executable.into(), arguments, ..Facts::default() };
            name(&facts, Path::new("/"))
        };
        let worker = "gunicorn: worker [shop.wsgi:app]";
        assert_eq!(titled("python3.11", worker).as_deref(), Some("shop"));
        assert_eq!(titled("gunicorn", worker).as_deref(), Some("shop"));
        let puma = "puma 6.4.0 (tcp://0.0.0.0:9292) [forum]";
        assert_eq!(titled("ruby", puma).as_deref(), Some("forum"));
        assert_eq!(titled("postgres", "postgres: shop shop [local] idle"), None);
        let mut facts = Facts {
            executable: "java".into(),
            arguments: ["java", "-jar", "app.jar"].map(str::to_owned).to_vec(),
            spring_name: Some("cart".into()),
            ..Facts::default()
        };
        assert_eq!(name(&facts, Path::new("/")).as_deref(), Some("cart"));
        facts.arguments = ["python3", "manage.py", "runserver"].map(str::to_owned).to_vec();
        facts.executable = "python3".into();
        facts.django_settings = Some("shop.settings.production".into());
        assert_eq!(name(&facts, Path::new("/")).as_deref(), Some("shop"));
    }

    #[test]
    fn packages_tell_their_names() {
        let root = std::env::temp_dir().join(format!("spanwise-package-{}", std::process::id()));
        let folder = root.join("srv/web/dist/src");
        std::fs::create_dir_all(&folder).expect("created");
        std::fs::write(root.join("srv/web/package.json"), r#"{"name": "@acme/checkout"}"#)
            .expect("written");
        let facts = |script: &str| Facts {
            executable: "node".into(),
            arguments: vec!["node".into(), script.into()],
            directory: Some("/srv/web".into()),
            package_name: Some("of-npm".into()),
            ..Facts::default()
        };
        assert_eq!(name(&facts("dist/src/index.js"), &root).as_deref(), Some("checkout"));
        assert_eq!(name(&facts("/elsewhere/x.js"), &root).as_deref(), Some("of-npm"));
        std::fs::write(root.join("srv/web/package.json"), "{").expect("written");
        assert_eq!(name(&facts("dist/src/index.js"), &root).as_deref(), Some("of-npm"));
        std::fs::remove_dir_all(&root).expect("removed");
    }
}
